package rows

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// uses is what a drain, or a meter, does to a table, by the columns that it writes.
type uses struct {
	table          string
	updates        []string
	inserts        []string
	removes        bool
	rights, ending string // as GRANT has them; what does not work without them
}

// uses are the tables that are there, with what is done to each.
func (d *Drainer) uses() (all []uses) {
	t := d.table
	facts := append([]string{d.stateColumn()}, pointed(t.Columns.list())...)
	switch {
	case t.Side == "":
		all = append(all, uses{table: t.Name, updates: facts, rights: "SELECT, UPDATE", ending: "rows cannot be claimed"})
	default:
		own := uses{table: t.Name, rights: "SELECT"}
		if t.State != "" {
			own = uses{table: t.Name, updates: []string{t.State}, rights: "SELECT, UPDATE", ending: "rows cannot be claimed"}
		}
		all = append(all, own, uses{table: t.Side, updates: facts, inserts: slices.Concat(t.Key, facts), rights: "SELECT, INSERT, UPDATE", ending: "rows cannot be claimed"})
	}
	if d.options.Fence > 0 {
		all = append(all, uses{table: fencesTable, updates: []string{"fence"}, inserts: []string{"job", "fence"}, rights: "SELECT, INSERT, UPDATE",
			ending: "a drain inside cronce run cannot claim rows"})
	}
	return all
}

// examineRights has what is written explained, which takes the same rights as to write it.
func (d *Drainer) examineRights(ctx context.Context, l *lane, r *Report) error {
	return explainUses(ctx, d.engine, l.conn, d.uses(), r)
}

func explainUses(ctx context.Context, e engine, q querier, all []uses, r *Report) error {
	user, err := e.user(ctx, q)
	if err != nil || user == "" {
		return err
	}
	for _, u := range all {
		for _, s := range u.statements(e) {
			err := each(ctx, q, func(func(...any) error) error { return nil }, "EXPLAIN "+s)
			switch {
			case err == nil:
				continue
			case e.denied(err):
				r.note(Refused, "rights", fmt.Sprintf("GRANT %s ON %s TO %s;\n", u.rights, e.quote(u.table), user), "%s: %v", u.ending, err)
			case e.refused(err):
				r.note(Refused, "table", "-- see what the database says", "%s is not as the migration makes it: %s: %v", u.table, u.ending, err)
			default:
				return err
			}
			break
		}
	}
	return nil
}

// statements change no row.
func (u uses) statements(e engine) (all []string) {
	table := e.quote(u.table)
	if u.updates != nil {
		set := make([]string, len(u.updates))
		for i, c := range u.updates {
			set[i] = e.quote(c) + " = " + e.quote(c)
		}
		all = append(all, fmt.Sprintf("UPDATE %s SET %s WHERE 1 = 0", table, strings.Join(set, ", ")))
	}
	if u.inserts != nil {
		columns := quoted(e, u.inserts)
		all = append(all, fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s WHERE 1 = 0", table, columns, columns, table))
	}
	if u.removes {
		all = append(all, fmt.Sprintf("DELETE FROM %s WHERE 1 = 0", table))
	}
	return all
}

// PreflightMeter adds to a report what the table of a meter lacks.
//
// Errors: those of [OpenMeter] but for a table that is not there.
func PreflightMeter(ctx context.Context, db *sql.DB, o MeterOptions, r *Report) error {
	m, there, err := prepareMeter(ctx, db, o)
	if err != nil {
		return err
	}
	defer r.sort()
	table := m.options.Table
	if !there {
		r.note(Refused, "table", m.migration(), "there is no table %s, in which duplicates are remembered (or this user has no right to it)", table)
		return nil
	}
	columns := []string{"hash", "sends", "sent_at", "flying", "flying_until", "forget_at", "answer", "token"}
	err = explainUses(ctx, m.engine, db, []uses{{table: table, updates: columns, inserts: columns, removes: true,
		rights: "SELECT, INSERT, UPDATE, DELETE", ending: "duplicates cannot be remembered"}}, r)
	if err != nil {
		return &UnavailableError{Table: table, Err: err}
	}
	return nil
}

// pointed are the texts behind pointers.
func pointed(all []*string) []string {
	texts := make([]string, len(all))
	for i, p := range all {
		texts[i] = *p
	}
	return texts
}
