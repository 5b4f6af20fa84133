package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cronce/cronce"
)

// answer is what a function of the schema says.
type answer struct {
	Answer     string            `json:"answer"`
	Run        cronce.Run        `json:"run"`
	Holder     *cronce.Run       `json:"holder"`
	Request    *cronce.Request   `json:"request"`
	Definition cronce.Definition `json:"definition"`
	Since      time.Time         `json:"since"`
	Granted    time.Time         `json:"granted"`
	TTL        int64             `json:"ttl"` // µs
	Stop       *cronce.Request   `json:"stop"`
	Success    time.Time         `json:"success"`
	Offered    time.Time         `json:"offered"`
	Expires    time.Time         `json:"expires"`
	Now        time.Time         `json:"now"`
	Watermark  time.Time         `json:"watermark"`
	Count      int               `json:"count"`
}

// question is what a function is asked. Durations are in µs; what does not
// apply is left out.
type question map[string]any

// step calls a function that gives one answer.
func (d *driver) step(ctx context.Context, function string, q question) (answer, error) {
	var a answer
	rows, err := d.call(ctx, function, q)
	if err != nil {
		return a, err
	}
	if len(rows) != 1 {
		return a, &cronce.UnavailableError{Store: d.place, Err: fmt.Errorf("%s gave %d answers in place of one", function, len(rows))}
	}
	if err := json.Unmarshal([]byte(rows[0]), &a); err != nil {
		return a, &cronce.UnavailableError{Store: d.place, Err: fmt.Errorf("%s gave an answer that cannot be read: %w", function, err)}
	}
	return a, nil
}

// notReadCommitted is the error of a step in a transaction at another level.
const notReadCommitted = "CRN01"

// call calls a function of the schema in a transaction of its own, which is
// sent whole: a client that dies or stops anywhere leaves it done or not done,
// and no lock behind. The function is the transaction, unless sessions have
// another default than READ COMMITTED: then it says so, has done nothing, and is
// called in one with BEGIN and COMMIT around it from there on.
func (d *driver) call(ctx context.Context, function string, q question) ([]string, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	statement := "select " + d.schema + "." + function + "($1::pg_catalog.jsonb)::pg_catalog.text"
	if !d.begins.Load() {
		r, err := d.pool.Query(ctx, statement, string(text))
		rows, err := collect(r, err)
		if e := asPgError(err); e == nil || e.Code != notReadCommitted {
			return rows, d.explain(err)
		}
		d.begins.Store(true)
	}
	var rows []string
	committed := false
	b := &pgx.Batch{}
	b.Queue("begin isolation level read committed")
	b.Queue(statement, string(text)).Query(func(r pgx.Rows) (err error) {
		rows, err = collect(r, nil)
		return err
	})
	b.Queue("commit").Exec(func(tag pgconn.CommandTag) error {
		committed = tag.String() == "COMMIT"
		return nil
	})
	if err := d.pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, d.explain(err)
	}
	if !committed {
		return nil, &cronce.UnavailableError{Store: d.place, Err: errors.New("the transaction was not committed")}
	}
	return rows, nil
}

func collect(r pgx.Rows, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(r, pgx.RowTo[string])
}

func asPgError(err error) *pgconn.PgError {
	var e *pgconn.PgError
	errors.As(err, &e)
	return e
}

// explain says what an error of the server means to people.
func (d *driver) explain(err error) error {
	if err == nil {
		return nil
	}
	config := func(what, cure string) error {
		return &cronce.ConfigError{Store: d.place, What: what, Cure: cure}
	}
	e := asPgError(err)
	if e == nil {
		return &cronce.UnavailableError{Store: d.place, Err: OneLine(err)}
	}
	switch {
	case e.Code == "28P01" || e.Code == "28000":
		return config("the server does not let us in: "+e.Message, "see to the user in the URL, to the password in the file that CRONCE_STORE_PASSWORD_FILE names (or in the URL of CRONCE_STORE), and to pg_hba.conf")
	case e.Code == "3D000":
		return config(e.Message, "create it, or name another in the URL")
	case e.Code == "42501":
		return config("the role may not do this: "+e.Message, d.grants())
	case e.Code == "42883" || e.Code == "42P01" || e.Code == "3F000" || e.Code == "P0002":
		return config("the schema "+d.schema+" is not as this program made it: "+e.Message, "do not change it by hand; open the store anew with the newest cronce of the fleet")
	case e.Code == "25006" || e.Code == "55000" && strings.Contains(e.Message, "recovery"):
		err = fmt.Errorf("it takes no writes now, as a replica or under default_transaction_read_only: %w", err)
	}
	return &cronce.UnavailableError{Store: d.place, Err: err}
}

// OneLine is an error of a connection without what pgx repeats: it tries each address twice, with TLS and without, and
// has a line for each.
func OneLine(err error) error {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(line)
		if _, what, ok := strings.Cut(line, ": dial error: "); ok {
			line = what
		}
		if !strings.HasPrefix(line, "failed to connect to `") && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if !errors.As(err, new(*pgconn.ConnectError)) || len(lines) == 0 {
		return err
	}
	return oneLine{err, strings.Join(lines, "; ")}
}

type oneLine struct {
	error
	text string
}

func (e oneLine) Error() string { return e.text }
func (e oneLine) Unwrap() error { return e.error }

// clean is text that the database can keep: without NUL.
func clean(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }
