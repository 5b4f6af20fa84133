package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/rows"
)

// meterOptions are those of the meter of duplicates; the columns that it compares are read with each row.
func (o *drainOptions) meterOptions() rows.MeterOptions {
	m := o.meter
	m.Timeout = o.options.Timeout
	m.Target = func(row rows.Row) string {
		text, _ := rowText(o.column(row, o.target))
		return text
	}
	m.Content = func(row rows.Row) string {
		var values []any
		for _, name := range o.content {
			values = append(values, o.column(row, name))
		}
		return rows.Canonical(values...)
	}
	return m
}

// column is a row's value by its column's name.
func (o *drainOptions) column(row rows.Row, name string) any {
	if i := slices.Index(o.table.Key, name); i >= 0 {
		return row.Key[i]
	}
	return row.Values[slices.Index(o.table.Read, name)]
}

// readCompared has the columns that the meter compares read, where --read does not have them.
func (o *drainOptions) readCompared() {
	if o.target == "" {
		return
	}
	for _, name := range append([]string{o.target}, o.content...) {
		if !slices.Contains(o.table.Key, name) && !slices.Contains(o.table.Read, name) {
			o.table.Read = append(o.table.Read, name)
		}
	}
}

// metered is the handler with the meter around it, if duplicates are to be counted.
func (d *drain) metered(ctx context.Context, db *database, handle rows.Handler) (rows.Handler, error) {
	if d.target == "" {
		return handle, nil
	}
	options := d.meterOptions()
	options.Log = d.tell.logger()
	m, err := rows.OpenMeter(ctx, db.DB, options)
	if err != nil {
		return nil, drainError(err)
	}
	d.tell.duplicates = m.Duplicates
	return m.Watch(handle), nil
}

// repeat is what was sent more than once, as the report has it.
type repeat struct {
	Target  string    `json:"target"`
	Content []string  `json:"content"` // SHA-256
	Sends   int64     `json:"sends"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
}

// reportDuplicates lists what was sent more than once: by the table's own rows, or by a log of all sends.
func (o *drainOptions) reportDuplicates(ctx context.Context, db *database, limit int, asJSON bool, stdout io.Writer) error {
	log := rows.LogTable{Name: o.table.Name, Target: o.target, Content: o.content, Time: o.table.Columns.StartedAt, State: o.table.State, Where: o.table.Where}
	if log.Time == "" {
		log.Time = "cronce_started_at"
	}
	for _, s := range []struct{ own, word string }{{o.table.States.Sent, "sent"}, {o.table.States.Unknown, "unknown"}} {
		if s.own == "" {
			s.own = s.word
		}
		log.Sent = append(log.Sent, s.own)
	}
	if o.logTable != "" {
		log = rows.LogTable{Name: o.logTable, Target: o.target, Content: o.content, Time: o.logTime, Where: o.table.Where}
	}
	t := cli.NewTable(stdout, "TARGET", "SENDS", "FIRST", "LAST", "CONTENT")
	n := 0
	var last error // behind all that was found
	for r, err := range rows.Duplicates(ctx, db.DB, log, o.meter.Window) {
		if err != nil {
			last = drainError(err)
			break
		}
		if n++; n > limit {
			break
		}
		if asJSON {
			b, err := json.Marshal(repeat{r.Target, r.Content, r.Sends, r.First, r.Last})
			if err == nil {
				_, err = fmt.Fprintf(stdout, "%s\n", b)
			}
			if err != nil {
				return err
			}
			continue
		}
		var content []string
		for _, hash := range r.Content {
			content = append(content, hash[:min(len(hash), 12)])
		}
		t.Row(r.Target, strconv.FormatInt(r.Sends, 10), cronce.Stamp(r.First), cronce.Stamp(r.Last), strings.Join(content, " "))
	}
	switch {
	case asJSON, n == 0 && last != nil:
	case n == 0:
		_, err := fmt.Fprintf(stdout, "%s: nothing was sent more than once\n", log.Name)
		return err
	default:
		t.Flush()
	}
	if n > limit && !asJSON {
		fmt.Fprintln(stdout, "There are more: -n N lists N.")
	}
	if last == nil && n > 0 {
		last = toLookAt(log.Name, "some things were sent more than once")
	}
	return last
}
