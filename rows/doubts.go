package rows

import (
	"context"
	"time"
)

// Doubt is a row of which it is not certain that its work was done once.
type Doubt struct {
	Key       []any
	State     string // by its own word, as unknown or sent
	Token     string // of the claim that it was started under; empty where that was taken back
	Fence     int64  // of the run that claimed it last; 0: there was none
	StartedAt time.Time
	Attempts  int
	Crashes   int
	LastError string
}

// Doubts returns rows that are unknown, and those of which an attempt ended with its process, before a later one or the last of all:
// their work may have been done more than once, or not at all. A person who knows sets Crashes to 0. The ones that were started last come first, limit of them at most.
func (d *Drainer) Doubts(ctx context.Context, limit int) (all []Doubt, err error) {
	l := &lane{d: d}
	defer l.end()
	t := d.table.Columns
	s := d.statement().add("SELECT ", d.keys(), ", CASE")
	for i := range words.list() {
		s.add(" WHEN ").is(d.stateColumn(), d.kept(state(i))).add(" THEN ", string(rune('0'+i)))
	}
	s.add(" ELSE -1 END, ").name(t.Token).add(", COALESCE(").name(t.Fence).add(", 0), ").name(t.StartedAt)
	s.add(", COALESCE(").name(t.Attempts).add(", 0), COALESCE(").name(t.Crashes).add(", 0), ").name(t.LastError)
	s.add(" FROM ").name(d.facts()).add(" WHERE ").is(d.stateColumn(), d.kept(unknown)).add(" OR ").name(t.Crashes).add(" > 0 AND (")
	s.name(t.Attempts).add(" > 1 OR ").is(d.stateColumn(), d.kept(dead)).add(")")
	s.add(" ORDER BY ").name(t.StartedAt).add(" DESC LIMIT ").arg(limit)
	err = l.single(ctx, func() error {
		all = nil
		return l.query(ctx, s, func(scan func(...any) error) error {
			var r Doubt
			var what int
			var token, started, last any
			key, err := d.scanKey(scan, &what, &token, &r.Fence, &started, &r.Attempts, &r.Crashes, &last)
			if err != nil {
				return err
			}
			r.Key, r.State = key, "other"
			if what >= 0 {
				r.State = state(what).String()
			}
			r.Token, r.LastError, r.StartedAt = textOf(token), textOf(last), timeOf(started)
			all = append(all, r)
			return nil
		})
	})
	return all, d.unavailable(err)
}

func textOf(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// timeOf is a time of the facts, which some drivers give as text, in UTC. Zero: there is none.
func timeOf(value any) time.Time {
	if t, ok := value.(time.Time); ok {
		return t.UTC()
	}
	t, _ := time.Parse("2006-01-02 15:04:05.999999", textOf(value))
	return t
}
