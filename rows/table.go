package rows

import (
	"errors"
	"fmt"
	"strings"
)

// Table says which table is worked off, and what its columns mean. Names are written as they are
// in the database, without quotes; a dot parts a table's schema (or database) from its name.
type Table struct {
	Name string // as notices, or app.notices

	// Key is the primary key, or the columns of another unique index without NULLs.
	Key []string

	// Order is the column by which rows are claimed, smallest first; it should be the one that follows
	// State in an index. Empty: the first column of Key.
	Order string

	// State is the column that says what has become of a row. Only with a side table may there be
	// none: then every row that is not in the side table is pending.
	State  string
	States States

	// Columns are where the facts are kept, in the table itself. Ignored names are those of a
	// side table: with Side none may be given.
	Columns Columns

	// Side is the name of a table that keeps the facts where the table may not change. It has the columns of Key and
	// those of SideColumns, and must never be pruned of rows that the table still has: it is the only
	// memory of what was sent. It keeps out other programs that use cronce only.
	Side string

	// Where is SQL that a row must fulfil to be claimed, as kind = 'mail'. It is put into statements
	// as it is: never make it from what strangers wrote.
	Where string

	// Read are further columns whose values are read with the claim: [Row.Values].
	Read []string
}

// States are the values of the state column. They are given as text also where the
// column is a number. Empty ones are the words themselves ("pending" and so on). With a
// side table Sending is never written, and of the others only Pending and Sent have a default: what is empty
// is in the side table alone, and the row stays pending in its own.
type States struct {
	Pending string // waits
	Sending string // is claimed
	Sent    string // the handler has done its work
	Failed  string // the handler said that it never will: Permanent
	Dead    string // failed in the last attempt there was
	Unknown string // may have been sent, or not
}

// Columns are the names of columns that keep the facts. Empty ones are named
// cronce_token and so on, and added by the migration. Times are the database's, in UTC where the
// column's type has no zone.
type Columns struct {
	Token         string // text of 36 characters, or a uuid: whose claim it is, or was last
	LeaseUntil    string // time: until when the claim holds unless it is renewed
	StartedAt     string // time: when the handler was about to be called
	Attempts      string // integer: how often it was
	Crashes       string // integer: how many of these ended with their process
	NextAttemptAt string // time: not to be tried before
	LastError     string // text: what the handler said last
	Fence         string // 64-bit integer: that of the run which claimed it last; NULL without one
}

// SideColumns are the names in a side table, after the key's own: state has the words pending, sending and so on.
var SideColumns = Columns{
	Token: "token", LeaseUntil: "lease_until", StartedAt: "started_at", Attempts: "attempts", Crashes: "crashes",
	NextAttemptAt: "next_attempt_at", LastError: "last_error", Fence: "fence",
}

// sideState is the state column of a side table.
const sideState = "state"

// words are the states by their own names.
var words = States{Pending: "pending", Sending: "sending", Sent: "sent", Failed: "failed", Dead: "dead", Unknown: "unknown"}

// list is the values in one order, for loops over them.
func (s *States) list() []*string {
	return []*string{&s.Pending, &s.Sending, &s.Sent, &s.Failed, &s.Dead, &s.Unknown}
}

func (c *Columns) list() []*string {
	return []*string{&c.Token, &c.LeaseUntil, &c.StartedAt, &c.Attempts, &c.Crashes, &c.NextAttemptAt, &c.LastError, &c.Fence}
}

// Check says all that is wrong with the description by itself; the database is not asked.
func (t Table) Check() error {
	var all []error
	wrong := func(format string, a ...any) { all = append(all, fmt.Errorf(format, a...)) }
	if t.Name == "" {
		wrong("table: its name is missing")
	} else if err := checkName("table", t.Name, true); err != nil {
		wrong("%w", err)
	}
	if t.Side != "" {
		if err := checkName("side", t.Side, true); err != nil {
			wrong("%w", err)
		}
		if strings.EqualFold(t.Side, t.Name) {
			wrong("side: %s is the table itself: a side table is another one", t.Side)
		}
	}
	if len(t.Key) == 0 {
		wrong("key: the column of the primary key is missing")
	}
	if t.State == "" && t.Side == "" {
		wrong("state: the column that says what is pending is missing; a table without one needs a side table (side)")
	}
	seen := map[string]string{}
	name := func(setting, column string, alone bool) {
		if column == "" {
			return
		}
		if err := checkName(setting, column, false); err != nil {
			wrong("%w", err)
		} else if other, ok := seen[strings.ToLower(column)]; ok && alone {
			wrong("%s: column %s is already used for %s", setting, column, other)
		} else if alone {
			seen[strings.ToLower(column)] = setting
		}
	}
	for _, k := range t.Key {
		if k == "" {
			wrong("key: an empty name")
		}
		name("key", k, true)
	}
	name("state", t.State, true)
	names := t.Columns
	for i, c := range names.list() {
		if *c != "" && t.Side != "" {
			wrong("%s: with a side table the facts are there, and no columns are named", factSettings[i])
			continue
		}
		name(factSettings[i], *c, true)
	}
	name("order", t.Order, false)
	for _, c := range t.Read {
		if c == "" {
			wrong("read: an empty name")
		}
		name("read", c, false)
	}
	if t.State != "" {
		all = append(all, t.checkStates()...)
		if t.Side != "" && t.States.Sending != "" {
			wrong("sending: with a side table what is claimed is there, and the table's own state does not say it")
		}
	} else {
		for i, v := range t.States.list() {
			if *v != "" {
				wrong("%s: there is no state column (state) that could have the value", stateSettings[i])
			}
		}
	}
	return errors.Join(all...)
}

// checkStates wants values that any database tells apart: many compare without regard to
// case and to spaces at the end.
func (t Table) checkStates() (all []error) {
	full := t.complete()
	seen := map[string]string{}
	for i, v := range full.States.list() {
		if *v == "" {
			continue
		}
		plain := strings.ToLower(strings.TrimRight(*v, " "))
		if strings.ContainsRune(*v, 0) {
			all = append(all, fmt.Errorf("%s: %q: a state has no NUL character", stateSettings[i], *v))
		} else if other, ok := seen[plain]; ok {
			all = append(all, fmt.Errorf("%s: %q is the value of %s too: each state has its own", stateSettings[i], *v, other))
		}
		seen[plain] = stateSettings[i]
	}
	return all
}

// complete is the table with all that was left to its default.
func (t Table) complete() Table {
	if t.Order == "" && len(t.Key) > 0 {
		t.Order = t.Key[0]
	}
	if t.Side != "" {
		t.Columns = SideColumns
		if t.State != "" {
			t.States.Pending = or(t.States.Pending, words.Pending)
			t.States.Sent = or(t.States.Sent, words.Sent)
		}
		return t
	}
	defaults := words
	for i, v := range defaults.list() {
		mine := t.States.list()[i]
		*mine = or(*mine, *v)
	}
	names := SideColumns
	for i, c := range names.list() {
		mine := t.Columns.list()[i]
		*mine = or(*mine, "cronce_"+*c)
	}
	return t
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// checkName refuses what no engine takes as a name. Any other is quoted.
func checkName(setting, name string, schema bool) error {
	parts := []string{name}
	if schema {
		parts = strings.Split(name, ".")
		if len(parts) > 2 {
			return fmt.Errorf("%s: %s: a name has one dot at most, SCHEMA.TABLE", setting, name)
		}
	}
	for _, p := range parts {
		switch {
		case p == "":
			return fmt.Errorf("%s: %q: an empty name", setting, name)
		case len(p) > 64:
			return fmt.Errorf("%s: %s: a name has 64 characters at most", setting, name)
		case strings.Contains(p, "."):
			return fmt.Errorf("%s: %s: a column's name has no dot", setting, name)
		case strings.ContainsAny(p, "\x00`\"[]'\n"):
			return fmt.Errorf("%s: %q: write the name without quotes", setting, name)
		}
	}
	return nil
}
