package rows

import (
	"fmt"
	"strings"
)

// Setting is one property of a [Table] as people give it: a flag of `cronce drain`, a key
// in a file. All are read by [Table.Set].
type Setting struct {
	Key   string
	Value string // what a value looks like
	Help  string

	set func(*Table, string) error
}

// Settings is the one table of keys, in the order that help shows.
func Settings() []Setting { return settings }

var settings = []Setting{
	{Key: "table", Value: "NAME", Help: "the table to work off, as notices or app.notices",
		set: text(func(t *Table) *string { return &t.Name })},
	{Key: "key", Value: "COLUMN[,COLUMN]", Help: "the primary key, or the columns of another unique index without NULLs",
		set: names(func(t *Table) *[]string { return &t.Key })},
	{Key: "order", Value: "COLUMN", Help: "the column by which rows are claimed, smallest first (default: the key's first)",
		set: text(func(t *Table) *string { return &t.Order })},
	{Key: "state", Value: "COLUMN", Help: "the column that says what has become of a row",
		set: text(func(t *Table) *string { return &t.State })},
	{Key: "read", Value: "COLUMN[,COLUMN]", Help: "further columns that the handler gets",
		set: names(func(t *Table) *[]string { return &t.Read })},
	{Key: "where", Value: "SQL", Help: "what a row must fulfil as well, as kind = 'mail'",
		set: text(func(t *Table) *string { return &t.Where })},
	{Key: "side", Value: "TABLE", Help: "a table that keeps the facts, where the table itself may not change",
		set: text(func(t *Table) *string { return &t.Side })},

	value("pending", "of rows that wait", func(s *States) *string { return &s.Pending }),
	value("sending", "of rows that are claimed", func(s *States) *string { return &s.Sending }),
	value("sent", "of rows that are done", func(s *States) *string { return &s.Sent }),
	value("failed", "of rows that failed for good", func(s *States) *string { return &s.Failed }),
	value("dead", "of rows that failed in their last attempt", func(s *States) *string { return &s.Dead }),
	value("unknown", "of rows of which nobody knows whether they were sent", func(s *States) *string { return &s.Unknown }),

	fact("token", "whose claim it is", func(c *Columns) *string { return &c.Token }),
	fact("lease-until", "until when the claim holds", func(c *Columns) *string { return &c.LeaseUntil }),
	fact("started-at", "when the handler was about to be called", func(c *Columns) *string { return &c.StartedAt }),
	fact("attempts", "how often it was called", func(c *Columns) *string { return &c.Attempts }),
	fact("crashes", "how many attempts ended with their process", func(c *Columns) *string { return &c.Crashes }),
	fact("next-attempt-at", "before when it is not tried again", func(c *Columns) *string { return &c.NextAttemptAt }),
	fact("last-error", "what went wrong last", func(c *Columns) *string { return &c.LastError }),
	fact("fence", "the fence of the run that claimed it last", func(c *Columns) *string { return &c.Fence }),
}

// The keys of States and Columns, in the order of their list methods.
var (
	stateSettings = []string{"pending", "sending", "sent", "failed", "dead", "unknown"}
	factSettings  = []string{"token", "lease-until", "started-at", "attempts", "crashes", "next-attempt-at", "last-error", "fence"}
)

// Set gives a property by its key. Whether all of them fit together is said by [Table.Check].
func (t *Table) Set(key, value string) error {
	for _, s := range settings {
		if s.Key == key {
			if err := s.set(t, value); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			return nil
		}
	}
	return fmt.Errorf("%s: a table has no such setting", key)
}

func text(field func(*Table) *string) func(*Table, string) error {
	return func(t *Table, v string) error {
		if strings.TrimSpace(v) == "" {
			return fmt.Errorf("a value is expected")
		}
		*field(t) = v
		return nil
	}
}

func names(field func(*Table) *[]string) func(*Table, string) error {
	return func(t *Table, v string) error {
		var all []string
		for name := range strings.SplitSeq(v, ",") {
			name = strings.TrimSpace(name)
			if name == "" {
				return fmt.Errorf("%q: names of columns are expected, parted by commas", v)
			}
			all = append(all, name)
		}
		*field(t) = all
		return nil
	}
}

func value(key, of string, field func(*States) *string) Setting {
	return Setting{Key: key, Value: "VALUE", Help: "the state " + of + " (default " + key + ")",
		set: text(func(t *Table) *string { return field(&t.States) })}
}

func fact(key, what string, field func(*Columns) *string) Setting {
	return Setting{Key: key, Value: "COLUMN", Help: "the table's own column for " + what + " (default cronce_" + strings.ReplaceAll(key, "-", "_") + ")",
		set: text(func(t *Table) *string { return field(&t.Columns) })}
}
