package rows

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// LogTable is a table that has one row for each send, of whatever program, for [Duplicates]. Names are written as
// in [Table].
type LogTable struct {
	Name    string
	Target  string   // the column that says to whom or what
	Content []string // the columns that say what
	Time    string   // the column that says when; integers are Unix seconds or milliseconds, times without a zone are taken as UTC

	// State is the column that says what came of a send, and Sent its values for what was sent, or may
	// have been. Empty State: each row is a send. Empty Sent: sent and unknown.
	State string
	Sent  []string

	Where string // SQL that a row must fulfil; as Table.Where
}

// Repeat is the same content to the same target, each within the window of the one before.
type Repeat struct {
	Target      string
	Content     []string // SHA-256 of each content column as text, in hex; empty for NULL
	Sends       int64    // 2 at least
	First, Last time.Time
}

// Duplicates lists what a send log has more than once within the window (0: 1h), the most often first. The database groups and
// sorts; here one group is in memory at a time.
//
// Errors: a *[TableError], what the database says, the context's; one error ends the list. Sends whose time cannot be read are in no
// group: that there are some is a *[TableError] too, behind all that was found.
func Duplicates(ctx context.Context, db *sql.DB, t LogTable, window time.Duration) iter.Seq2[Repeat, error] {
	return func(yield func(Repeat, error) bool) {
		err := t.repeats(ctx, db, window, func(r Repeat) error {
			if !yield(r, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && err != errEnough {
			yield(Repeat{}, err)
		}
	}
}

// errEnough: the caller has seen enough.
var errEnough = errors.New("enough")

func (t LogTable) check() error {
	var all []error
	for setting, name := range map[string]string{"target": t.Target, "time": t.Time} {
		if name == "" {
			all = append(all, fmt.Errorf("%s: the column is missing", setting))
		}
	}
	if len(t.Content) == 0 {
		all = append(all, errors.New("content: the column is missing"))
	}
	if len(t.Sent) > 0 && t.State == "" {
		all = append(all, errors.New("state: the column that says what was sent is missing"))
	}
	all = append(all, checkName("table", t.Name, true))
	for _, name := range t.columns() {
		all = append(all, checkName("column", name, false))
	}
	return errors.Join(all...)
}

// columns are those that must be there.
func (t LogTable) columns() []string {
	return slices.DeleteFunc(append(slices.Clone(t.Content), t.Target, t.Time, t.State), func(name string) bool { return name == "" })
}

func (t LogTable) repeats(ctx context.Context, db *sql.DB, window time.Duration, found func(Repeat) error) error {
	if err := t.check(); err != nil {
		return err
	}
	set(&window, time.Hour)
	e, err := detect(ctx, db)
	if err != nil {
		return &UnavailableError{Table: t.Name, Err: err}
	}
	l, err := e.look(ctx, db, t.Name)
	if err != nil {
		return &UnavailableError{Table: t.Name, Err: err}
	}
	if !l.there() {
		return &TableError{Table: t.Name, What: e.name() + " has no such table", Cure: "name an existing one"}
	}
	for _, name := range t.columns() {
		if _, ok := l.column(name); !ok {
			return &TableError{Table: t.Name, What: "there is no column " + name, Cure: "it has " + columnNames(l)}
		}
	}
	query, args, err := t.query(e, l, window)
	if err != nil {
		return err
	}
	contents := make([]sql.NullString, len(t.Content))
	err = each(ctx, db, func(scan func(...any) error) error {
		r := Repeat{Content: make([]string, len(contents))}
		var first, last float64
		into := []any{&r.Target, &first, &last, &r.Sends}
		for i := range contents {
			into = append(into, &contents[i])
		}
		if err := scan(into...); err != nil {
			return err
		}
		r.First, r.Last = unixSeconds(first), unixSeconds(last)
		for i, c := range contents {
			if r.Content[i] = c.String; c.Valid && !digests(e) {
				sum := sha256.Sum256([]byte(c.String))
				r.Content[i] = hex.EncodeToString(sum[:])
			}
		}
		return found(r)
	}, query, args...)
	if err != nil {
		return err
	}
	return t.undated(ctx, db, e, l)
}

// undated is an error about sends of which nobody can say when they were.
func (t LogTable) undated(ctx context.Context, db *sql.DB, e engine, l looks) error {
	at, err := seconds(e, l, t)
	if err != nil {
		return err
	}
	sends, args := t.sends(e)
	var n int64
	err = db.QueryRowContext(ctx, "SELECT COUNT(*)"+sends+" AND "+at+" IS NULL", args...).Scan(&n)
	if err != nil || n == 0 {
		return err
	}
	return &TableError{
		Table: t.Name, What: fmt.Sprintf("%d sends have no time that can be read in column %s: whether they were duplicates is not known", n, t.Time),
		Cure: "times as 2026-11-30 10:00:00 or 2026-11-30T10:00:00Z can be read, and Unix seconds and milliseconds; name the column that says when, or leave these rows out",
	}
}

// query is one statement: spans of sends, of which each is within the window of the one before. RANGE has those of one moment in one span,
// whatever order the database has them in.
func (t LogTable) query(e engine, l looks, window time.Duration) (query string, args []any, err error) {
	at, err := seconds(e, l, t)
	if err != nil {
		return "", nil, err
	}
	var inner strings.Builder
	fmt.Fprintf(&inner, "SELECT %s AS target, %s AS sent_at", plainText(e, t.Target), at)
	same := "target"
	for i, c := range t.Content {
		content := plainText(e, c)
		if _, ok := e.(*mysql); ok {
			content = "SHA2(" + content + ", 256)"
		} else if digests(e) {
			content = "encode(sha256(convert_to(" + content + ", 'UTF8')), 'hex')"
		}
		fmt.Fprintf(&inner, ", %s AS content%d", content, i)
		same += ", content" + strconv.Itoa(i)
	}
	sends, args := t.sends(e)
	inner.WriteString(sends + " AND " + at + " IS NOT NULL")
	return fmt.Sprintf(`WITH sends AS (SELECT log.*, LAG(sent_at) OVER (PARTITION BY %[1]s ORDER BY sent_at) AS earlier FROM (%[2]s) log),
spans AS (SELECT sends.*, SUM(CASE WHEN sent_at - earlier <= %[3]s THEN 0 ELSE 1 END) OVER (PARTITION BY %[1]s ORDER BY sent_at RANGE UNBOUNDED PRECEDING) AS span FROM sends)
SELECT target, MIN(sent_at), MAX(sent_at), COUNT(*)%[4]s FROM spans GROUP BY %[1]s, span HAVING COUNT(*) > 1 ORDER BY COUNT(*) DESC, MIN(sent_at)`,
		same, inner.String(), strconv.FormatFloat(window.Seconds(), 'f', 3, 64), strings.TrimPrefix(same, "target")), args, nil
}

// sends is what of the table are sends.
func (t LogTable) sends(e engine) (from string, args []any) {
	from = fmt.Sprintf(" FROM %s WHERE %s IS NOT NULL", e.quote(t.Name), e.quote(t.Target))
	if t.State != "" {
		sent := t.Sent
		if len(sent) == 0 {
			sent = []string{words.Sent, words.Unknown}
		}
		places := make([]string, len(sent))
		for i, s := range sent {
			args = append(args, s)
			places[i] = e.placeholder(i + 1)
		}
		from += fmt.Sprintf(" AND %s IN (%s)", plainText(e, t.State), strings.Join(places, ", "))
	}
	if t.Where != "" {
		from += " AND (" + t.Where + ")"
	}
	return from, args
}

// seconds is SQL for the time in Unix seconds, NULL where it cannot be read.
func seconds(e engine, l looks, t LogTable) (string, error) {
	c, _ := l.column(t.Time)
	name := e.quote(t.Time)
	_, lite := e.(*sqlite)
	_, isMySQL := e.(*mysql)
	switch {
	case lite: // what a column is declared as says little of what is in it
		return fmt.Sprintf("(CASE WHEN typeof(%[1]s) = 'integer' OR typeof(%[1]s) = 'text' AND %[1]s <> '' AND %[1]s NOT GLOB '*[^0-9]*' THEN %[2]s "+
			"ELSE strftime('%%s', %[1]s) + ROUND(strftime('%%f', %[1]s) - strftime('%%S', %[1]s), 3) END)", name, unix("CAST("+name+" AS INTEGER)")), nil
	case c.kind == integers:
		return unix(name), nil
	case isMySQL && c.kind == instants:
		return "(UNIX_TIMESTAMP(" + name + ") + 0e0)", nil
	case isMySQL && c.kind == times: // UNIX_TIMESTAMP would take it as of the session's zone
		return "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " + name + ") / 1e6)", nil
	case c.kind == times || c.kind == instants:
		return "EXTRACT(EPOCH FROM " + name + ")::float8", nil
	}
	return "", &TableError{Table: t.Name, What: fmt.Sprintf("column %s (%s) is no time", t.Time, c.declared), Cure: "name the column that says when it was sent"}
}

// unix is SQL for Unix seconds of a number that may be of milliseconds: seconds reach it in the year 5138, milliseconds did in 1973.
func unix(number string) string {
	return fmt.Sprintf("(CASE WHEN %[1]s < 100000000000 THEN %[1]s * 1.0 WHEN %[1]s < 100000000000000 THEN %[1]s / 1000.0 END)", number)
}

// plainText is SQL for a value as text that is compared by its bytes.
func plainText(e engine, column string) string {
	switch e.(type) {
	case *mysql:
		return "CONVERT(" + e.quote(column) + " USING utf8mb4) COLLATE utf8mb4_bin"
	case *postgres:
		return e.quote(column) + "::text"
	}
	return "CAST(" + e.quote(column) + " AS TEXT)"
}

// digests reports whether the database can make a SHA-256, so that it sorts short texts.
func digests(e engine) bool { _, lite := e.(*sqlite); return !lite }

func unixSeconds(s float64) time.Time {
	whole, part := math.Modf(s)
	return time.Unix(int64(whole), int64(math.Round(part*1e6))*1000).UTC()
}
