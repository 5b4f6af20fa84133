package rows

import (
	"context"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// result is what became of a started row, or of one that is given back.
type result struct {
	it   *item
	to   state
	err  error         // nil for what is sent
	wait time.Duration // before the next attempt, for pending
	back bool          // pending, as its handler was not called
	free bool          // pending, and no attempt: its handler could not begin
}

// record puts a result on record, for rows that are still ours.
func (d *Drainer) record(ctx context.Context, l *lane, results []result) (ours map[*item]bool, err error) {
	ours = map[*item]bool{}
	for _, group := range alike(results) {
		t, first := d.table.Columns, group[0]
		s := d.statement().add("UPDATE ").name(d.facts()).add(" SET ").is(d.stateColumn(), d.kept(first.to))
		s.add(", ").name(t.LeaseUntil).add(" = NULL")
		switch {
		case first.back:
			s.add(", ").name(t.StartedAt).add(" = NULL")
			if first.it.begun {
				s.add(", ").name(t.Attempts).add(" = ").name(t.Attempts).add(" - 1")
			}
		default:
			if first.free {
				s.add(", ").name(t.Attempts).add(" = ").name(t.Attempts).add(" - 1")
			}
			s.add(", ").is(t.LastError, d.errorText(first.err))
			if s.add(", ").name(t.NextAttemptAt).add(" = "); first.to == pending {
				s.after(t.NextAttemptAt, first.wait)
			} else {
				s.add("NULL")
			}
		}
		items := make([]*item, len(group))
		for i, r := range group {
			items[i] = r.it
		}
		still, err := d.guarded(ctx, l, s, items, "", first.to)
		if err != nil {
			return nil, err
		}
		for _, it := range still {
			ours[it] = true
		}
		if err := d.mirror(ctx, l, still, first.to); err != nil {
			return nil, err
		}
	}
	return ours, nil
}

// start puts on record that handlers are about to be called, under a whole lease.
func (d *Drainer) start(ctx context.Context, l *lane, items []*item) (ours map[*item]bool, err error) {
	ours = map[*item]bool{}
	t := d.table.Columns
	for _, group := range byToken(items) {
		s := d.statement().add("UPDATE ").name(d.facts()).add(" SET ").name(t.StartedAt).add(" = ").now(t.StartedAt)
		s.add(", ").name(t.Attempts).add(" = COALESCE(").name(t.Attempts).add(", 0) + 1, ").name(t.LeaseUntil).add(" = ").after(t.LeaseUntil, d.options.Lease)
		still, err := d.guarded(ctx, l, s, group, d.engine.quote(t.StartedAt)+" IS NULL", sending)
		if err != nil {
			return nil, err
		}
		for _, it := range still {
			ours[it] = true
		}
	}
	return ours, nil
}

// atOnce is the one statement for a turn of rows that are sent and of others that begin, all of one claim; nil: it is
// another turn. Which of both a row is says its start: where it is on record but
// was not to be made, or is not but was, the row is passed over.
func (d *Drainer) atOnce(results []result, starts []*item) *statement {
	if len(results) == 0 || len(starts) == 0 || d.table.Side != "" {
		return nil
	}
	token := starts[0].token
	items := make([]*item, 0, len(results)+len(starts))
	for _, r := range results {
		if r.to != sent || r.it.token != token {
			return nil
		}
		items = append(items, r.it)
	}
	for _, it := range starts {
		if it.token != token {
			return nil
		}
		items = append(items, it)
	}
	t := d.table.Columns
	starting := "CASE WHEN " + d.engine.quote(t.StartedAt) + " IS NULL THEN "
	s := d.statement().add("UPDATE ").name(d.facts()).add(" SET ").name(d.table.State).add(" = ", starting).name(d.table.State).add(" ELSE ").arg(d.kept(sent)).add(" END")
	s.add(", ").name(t.LeaseUntil).add(" = ", starting).after(t.LeaseUntil, d.options.Lease).add(" END")
	s.add(", ").name(t.Attempts).add(" = ", starting, "COALESCE(").name(t.Attempts).add(", 0) + 1 ELSE ").name(t.Attempts).add(" END")
	for _, c := range []string{t.LastError, t.NextAttemptAt} {
		s.add(", ").name(c).add(" = ", starting).name(c).add(" END")
	}
	// The last, as MySQL sets one after the other.
	s.add(", ").name(t.StartedAt).add(" = COALESCE(").name(t.StartedAt).add(", ").now(t.StartedAt).add(")")
	s.add(" WHERE ").keyed("", keysOf(items)).add(" AND ").is(t.Token, token).add(" AND ").still(d.table.State, d.kept(sending))
	return s.add(" AND (").keyed("", keysOf(starts)).add(") = (").name(t.StartedAt).add(" IS NULL)")
}

// renew prolongs the leases of rows, and returns those that are no longer ours.
func (d *Drainer) renew(ctx context.Context, l *lane, items []*item) (lost []*item, err error) {
	t := d.table.Columns
	for _, group := range byToken(items) {
		s := d.statement().add("UPDATE ").name(d.facts()).add(" SET ").name(t.LeaseUntil).add(" = ").after(t.LeaseUntil, d.options.Lease)
		still, err := d.guarded(ctx, l, s, group, "", -1)
		if err != nil {
			return nil, err
		}
		held := map[*item]bool{}
		for _, it := range still {
			held[it] = true
		}
		for _, it := range group {
			if !held[it] {
				lost = append(lost, it)
			}
		}
	}
	return lost, nil
}

// guarded runs an UPDATE for rows that are still claimed under their token, all of them the same, and returns those for which
// it holds that they have come to the state, by this statement or by the same one before, whose reply was lost. State -1: whatever became
// of them under our token.
func (d *Drainer) guarded(ctx context.Context, l *lane, s *statement, items []*item, also string, to state) ([]*item, error) {
	token := items[0].token
	s.add(" WHERE ").keyed("", keysOf(items)).add(" AND ").is(d.table.Columns.Token, token).add(" AND ").still(d.stateColumn(), d.kept(sending))
	if also != "" {
		s.add(" AND ", also)
	}
	n, err := l.exec(ctx, s)
	if err != nil || n == int64(len(items)) {
		return items, err
	}
	s = d.statement().add("SELECT ", d.keys(), " FROM ").name(d.facts()).add(" WHERE ").keyed("", keysOf(items))
	s.add(" AND ").is(d.table.Columns.Token, token)
	if to >= 0 {
		s.add(" AND ").is(d.stateColumn(), d.kept(to))
	}
	if also != "" { // the start: what was not has become
		s.add(" AND NOT (", also, ")")
	}
	there := map[string]bool{}
	err = l.query(ctx, s, func(scan func(...any) error) error {
		key, err := d.scanKey(scan)
		there[identity(key)] = true
		return err
	})
	var still []*item
	for _, it := range items {
		if there[identity(it.row.Key)] {
			still = append(still, it)
		}
	}
	return still, err
}

func (d *Drainer) scanKey(scan func(...any) error, more ...any) ([]any, error) {
	key := make([]any, len(d.table.Key))
	into := make([]any, 0, len(key)+len(more))
	for i := range key {
		into = append(into, &key[i])
	}
	if err := scan(append(into, more...)...); err != nil {
		return nil, err
	}
	for i, name := range d.table.Key {
		c, _ := d.looks.column(name)
		key[i] = d.plain(c, key[i])
	}
	return key, nil
}

// mirror writes into the table's own state column what has been decided in its side table.
func (d *Drainer) mirror(ctx context.Context, l *lane, items []*item, to state) error {
	if d.table.Side == "" || d.table.State == "" || to == pending || len(items) == 0 {
		return nil
	}
	value, ok := d.own(to)
	if !ok {
		return nil
	}
	from, _ := d.own(pending)
	s := d.statement().add("UPDATE ").name(d.table.Name).add(" SET ").is(d.table.State, value)
	_, err := l.exec(ctx, s.add(" WHERE ").keyed("", keysOf(items)).add(" AND ").is(d.table.State, from))
	return err
}

// alike groups results that one statement can record.
func alike(results []result) (groups [][]result) {
	type kind struct {
		token string
		to    state
		begun bool
	}
	at := map[kind]int{}
	for _, r := range results {
		if !r.back && r.to != sent {
			groups = append(groups, []result{r})
			continue
		}
		k := kind{r.it.token, r.to, r.back && r.it.begun}
		if i, ok := at[k]; ok {
			groups[i] = append(groups[i], r)
			continue
		}
		at[k] = len(groups)
		groups = append(groups, []result{r})
	}
	return groups
}

// byToken groups rows by the claim that they are of: under another of our own claims a row would be another's.
func byToken(items []*item) (groups [][]*item) {
	at := map[string]int{}
	for _, it := range items {
		i, ok := at[it.token]
		if !ok {
			i = len(groups)
			at[it.token] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], it)
	}
	return groups
}

// errorText is an error as its column can hold it, nil for none.
func (d *Drainer) errorText(err error) any {
	if err == nil {
		return nil
	}
	text := strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "\uFFFD"), "\x00", " ")
	most := 500
	c := d.fact(d.table.Columns.LastError)
	if c.length > 0 {
		most = min(most, c.length)
	}
	if c.narrow { // what the column cannot hold must not keep the result from being recorded
		text = strings.Map(func(r rune) rune {
			if r > unicode.MaxASCII {
				return '?'
			}
			return r
		}, text)
	}
	if utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most])
	}
	return text
}
