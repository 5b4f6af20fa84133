package rows

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// need is one thing that a drain needs and the database does not have. All that is said of it comes from here: Open refuses
// the first, Preflight names them all, and Migration is the SQL of all.
type need struct {
	about string // as Finding.About
	what  string // what is the matter
	cure  string // what to do, in words
	sql   string // statements that mend it; empty: none does, or a person has to choose
	slow  bool   // a drain is right without it
}

// printed is the cure of what the migration mends.
const printed = "run the printed migration (cronce drain --print-migration)"

// needs is what is missing. Where the description means nothing in this database, that is the only one.
func (d *Drainer) needs() []need {
	if n := d.meaning(); n != nil {
		return []need{*n}
	}
	return slices.Concat(d.stateNeeds(), d.factNeeds(), d.indexNeeds(), d.fenceNeeds())
}

// check refuses what would lose rows or work them off twice, and what cannot work at all.
func (d *Drainer) check() error {
	for _, n := range d.needs() {
		if !n.slow {
			return d.refuse(n.cure, "%s", n.what)
		}
	}
	return nil
}

// plainNeed is one that no SQL mends.
func plainNeed(cure, format string, a ...any) *need {
	return &need{about: "table", what: fmt.Sprintf(format, a...), cure: cure}
}

// meaning is what keeps the description from meaning anything in this database; nil: nothing does.
func (d *Drainer) meaning() *need {
	t := d.table
	switch {
	case !d.looks.there():
		return plainNeed("name an existing one, to which this user has a right", "%s has no such table", d.engine.name())
	case d.looks.what != "":
		return plainNeed("name the table that is behind it", "it is %s", d.looks.what)
	case d.looks.heirs:
		return plainNeed("make partitions of them, or one table", "other tables inherit from it (INHERITS), and their rows may have the same %s", strings.Join(t.Key, ", "))
	case d.side.what != "":
		return plainNeed("name a table, or a name that is free", "the side table %s is %s", t.Side, d.side.what)
	}
	for _, name := range slices.Concat(t.Key, t.Read, []string{t.Order, t.State}) {
		if _, ok := d.looks.column(name); !ok && name != "" {
			return plainNeed("it has "+columnNames(d.looks), "there is no column %s", name)
		}
	}
	if !d.looks.identifies(t.Key) {
		return plainNeed("name the primary key, or make a unique index on it, of columns that are NOT NULL", "several rows may have the same %s", strings.Join(t.Key, ", "))
	}
	for _, k := range t.Key {
		if c, _ := d.looks.column(k); c.kind == bits {
			return plainNeed("name another unique column", "the key's column %s is of type %s, which cannot be asked for by its value", c.name, c.declared)
		}
	}
	return nil
}

// stateNeeds wants a column that gives back each state as it was written: some databases
// turn what does not fit into something else.
func (d *Drainer) stateNeeds() []need {
	if d.table.State == "" {
		return nil
	}
	c, _ := d.looks.column(d.table.State)
	var lacks []string
	longest := 0
	for i, v := range d.table.States.list() {
		setting := stateSettings[i]
		longest = max(longest, utf8.RuneCountInString(*v))
		switch fits, cure := c.holds(*v); {
		case *v == "", fits:
		case cure != "":
			return []need{*plainNeed(fmt.Sprintf(cure, setting), "the state column %s (%s) cannot hold %q", c.name, c.declared, *v)}
		default:
			lacks = append(lacks, *v)
		}
	}
	switch c.kind {
	case enums, texts, integers, booleans:
	default:
		return []need{*plainNeed("name a column of texts, integers or an enumeration", "the state column %s is of type %s", c.name, c.declared)}
	}
	if lacks == nil {
		return nil
	}
	n := need{about: "table", cure: printed, what: fmt.Sprintf("the state column %s (%s) cannot hold %s", c.name, c.declared, quotedTexts(lacks))}
	if c.kind == enums {
		n.sql = d.engine.extend(d.table.Name, c, lacks)
	} else if longer := strings.Replace(c.declared, fmt.Sprintf("(%d)", c.length), fmt.Sprintf("(%d)", max(longest, 20)), 1); longer != c.declared { // no domain
		n.sql = d.engine.retype(d.table.Name, c, longer)
	}
	if n.sql == "" {
		n.cure = "name other values, or change the column"
	}
	return []need{n}
}

// holds reports whether a column gives a state back as it was written. If it does not: cure is what to do, with
// a place for the state's name; empty: the column can be changed so that it does.
func (c column) holds(state string) (fits bool, cure string) {
	switch c.kind {
	case enums:
		for _, v := range c.values {
			if v != state && strings.EqualFold(v, state) {
				cure = "name the value as the column has it: --%s " + strings.ReplaceAll(v, "%", "%%")
			}
		}
		return slices.Contains(c.values, state), cure
	case integers:
		n, err := strconv.ParseInt(state, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != state {
			return false, "name a number for each state, as --%s N, or another column"
		}
		return c.reaches(n), "name another value for %s, or change the column"
	case texts:
		return c.length == 0 || utf8.RuneCountInString(state) <= c.length, ""
	case booleans:
		return state == "true" || state == "false", "name a column of texts, integers or an enumeration: this one has no third value (%s)"
	}
	return true, ""
}

// reaches reports whether an integer column has a number.
func (c column) reaches(n int64) bool {
	switch {
	case c.unsigned && n < 0:
		return false
	case c.length == 0 || c.length >= 64:
		return true
	case c.unsigned:
		return n < 1<<c.length
	}
	return n >= -1<<(c.length-1) && n < 1<<(c.length-1)
}

// factNeeds wants a place for each fact.
func (d *Drainer) factNeeds() (all []need) {
	t, facts := d.table, d.looks
	if t.Side != "" {
		if facts = d.side; !facts.there() {
			return []need{{about: "table", cure: printed, what: "there is no side table " + t.Side, sql: d.makeSide()}}
		}
		if n := d.sideMisfit(); n != nil {
			return []need{*n}
		}
	}
	var lacks, kept, sql []string
	for i, name := range t.Columns.list() {
		c, ok := facts.column(*name)
		if !ok {
			lacks, kept = append(lacks, *name), append(kept, factSettings[i])
			sql = append(sql, fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s;\n", d.engine.quote(d.facts()), d.engine.quote(*name), d.engine.declare(factKinds[i])))
		} else if n := d.misfit(factSettings[i], c); n != nil {
			all = append(all, *n)
		}
	}
	if lacks == nil {
		return all
	}
	what := fmt.Sprintf("there is no column %s, for %s", lacks[0], kept[0])
	if len(lacks) > 1 {
		what = fmt.Sprintf("there are no columns %s, for %s", strings.Join(lacks, ", "), strings.Join(kept, ", "))
	}
	return append(all, need{about: "table", cure: printed, what: what, sql: strings.Join(sql, "")})
}

// sideMisfit is what makes a table that is there no side table of ours.
func (d *Drainer) sideMisfit() *need {
	const cure = "make it by the printed migration, under a name that is free"
	t := d.table
	if whose, ok := strings.CutPrefix(d.side.remark, remark); ok && !sameTable(whose, t.Name) {
		return plainNeed("name another one (--print-migration makes it); if the table has another name now, change the remark on its side table",
			"the side table %s is that of %s, and what has been sent of that one would be taken for rows of this one", t.Side, whose)
	}
	for _, k := range t.Key {
		ours, _ := d.side.column(k)
		if theirs, _ := d.looks.column(k); ours.declared != theirs.declared || ours.collate != theirs.collate {
			return plainNeed(cure, "the side table %s has another type of %s (%q, not %q)", t.Side, k,
				strings.TrimSpace(ours.declared+ours.collate), strings.TrimSpace(theirs.declared+theirs.collate))
		}
	}
	if _, ok := d.side.column(sideState); !ok {
		return plainNeed(cure, "the side table %s has no column %s", t.Side, sideState)
	}
	if !d.side.identifies(t.Key) {
		return plainNeed(cure, "the side table %s has no primary key on %s", t.Side, strings.Join(t.Key, ", "))
	}
	return nil
}

// misfit is why a column cannot hold the fact; nil: it can.
func (d *Drainer) misfit(setting string, c column) *need {
	fits := map[string][]kind{
		"token":           {texts, uuids},
		"lease-until":     {times, instants},
		"started-at":      {times, instants},
		"next-attempt-at": {times, instants},
		"attempts":        {integers},
		"crashes":         {integers},
		"fence":           {integers},
		"last-error":      {texts},
	}[setting]
	if _, ok := d.engine.(*sqlite); ok && slices.Contains(fits, times) {
		fits = append(fits, texts) // a STRICT table has no other type for them
	}
	counter := setting == "attempts" || setting == "crashes"
	switch {
	case !slices.Contains(fits, c.kind),
		setting == "token" && c.kind == texts && c.length > 0 && c.length < 36,
		setting == "fence" && c.length > 0 && c.length < 64:
		return plainNeed("name another column, or none and run the printed migration", "column %s (%s) cannot hold %s", c.name, c.declared, setting)
	case !c.nullable && !counter:
		return plainNeed("name another column, or let it be NULL", "column %s, for %s, must not be NULL", c.name, setting)
	}
	return nil
}

// indexNeeds wants that a claim reads no more than it takes. A table with a side table may not change: its index is said
// where the side table is made, and by Preflight.
func (d *Drainer) indexNeeds() []need {
	if d.table.Side != "" || d.suited() {
		return nil
	}
	return []need{{about: "index", slow: true, cure: printed, sql: d.claimsIndex(),
		what: fmt.Sprintf("there is no index on (%s, %s), by which claims find rows", d.table.State, d.table.Order)}}
}

// fenceNeeds wants the table of fences, where there is one to keep.
func (d *Drainer) fenceNeeds() []need {
	if d.options.Fence == 0 || d.fences.there() {
		return nil
	}
	return []need{{about: "table", cure: printed, sql: d.makeFences(),
		what: fmt.Sprintf("there is no table %s, which keeps the highest fence of each job, for runs of cronce run (or this user has no right to it)", fencesTable)}}
}

func columnNames(l looks) string {
	var all []string
	for _, c := range l.columns {
		all = append(all, c.name)
	}
	return strings.Join(all, ", ")
}

func quotedTexts(texts []string) string {
	all := make([]string, len(texts))
	for i, t := range texts {
		all[i] = strconv.Quote(t)
	}
	return strings.Join(all, ", ")
}
