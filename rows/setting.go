package rows

import (
	"fmt"
	"strings"

	"github.com/cronce/cronce/internal/keys"
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

// settings are those of internal/keys, which a program can show without linking database/sql.
var settings = func() (all []Setting) {
	for _, k := range keys.Table() {
		all = append(all, Setting{k.Name, k.Value, k.Help, setters[k.Name]})
	}
	return all
}()

var setters = map[string]func(*Table, string) error{
	"table": text(func(t *Table) *string { return &t.Name }),
	"key":   names(func(t *Table) *[]string { return &t.Key }),
	"order": text(func(t *Table) *string { return &t.Order }),
	"state": text(func(t *Table) *string { return &t.State }),
	"read":  names(func(t *Table) *[]string { return &t.Read }),
	"where": text(func(t *Table) *string { return &t.Where }),
	"side":  text(func(t *Table) *string { return &t.Side }),

	"pending": text(func(t *Table) *string { return &t.States.Pending }),
	"sending": text(func(t *Table) *string { return &t.States.Sending }),
	"sent":    text(func(t *Table) *string { return &t.States.Sent }),
	"failed":  text(func(t *Table) *string { return &t.States.Failed }),
	"dead":    text(func(t *Table) *string { return &t.States.Dead }),
	"unknown": text(func(t *Table) *string { return &t.States.Unknown }),

	"token":           text(func(t *Table) *string { return &t.Columns.Token }),
	"lease-until":     text(func(t *Table) *string { return &t.Columns.LeaseUntil }),
	"started-at":      text(func(t *Table) *string { return &t.Columns.StartedAt }),
	"attempts":        text(func(t *Table) *string { return &t.Columns.Attempts }),
	"crashes":         text(func(t *Table) *string { return &t.Columns.Crashes }),
	"next-attempt-at": text(func(t *Table) *string { return &t.Columns.NextAttemptAt }),
	"last-error":      text(func(t *Table) *string { return &t.Columns.LastError }),
	"fence":           text(func(t *Table) *string { return &t.Columns.Fence }),
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
