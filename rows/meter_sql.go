package rows

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// sendsTable has one row a hash, for as long as it is remembered.
const sendsTable = "cronce_sends"

// What begin answers, as it is in the table. Zero is what MySQL answers for a new row.
const (
	granted = 1 // send it
	flying  = 2 // another one is under way
	blocked = 3 // it would be a duplicate
)

func prepareMeter(ctx context.Context, db *sql.DB, o MeterOptions) (m *Meter, there bool, err error) {
	switch {
	case o.Target == nil || o.Content == nil:
		return nil, false, errors.New("the meter does not know what to compare: Target and Content must be given")
	case o.Window < 0 || o.Timeout < 0:
		return nil, false, errors.New("a window or time-out is less than zero")
	}
	set(&o.Window, time.Hour)
	set(&o.Timeout, time.Minute)
	set(&o.Table, sendsTable)
	if err := checkName("table", o.Table, true); err != nil {
		return nil, false, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m = &Meter{db: db, options: o}
	if m.engine, err = detect(ctx, db); err != nil {
		return nil, false, &UnavailableError{Table: o.Table, Err: err}
	}
	l, err := m.engine.look(ctx, db, o.Table)
	if err != nil {
		return nil, false, &UnavailableError{Table: o.Table, Err: err}
	}
	return m, l.there(), nil
}

// checkPool refuses connections on which what the meter writes would not be there for others.
func (m *Meter) checkPool(ctx context.Context) error {
	if _, ok := m.engine.(*mysql); !ok {
		return nil
	}
	var commits bool
	if err := m.db.QueryRowContext(ctx, "SELECT @@autocommit").Scan(&commits); err != nil {
		return &UnavailableError{Table: m.options.Table, Err: err}
	}
	if !commits {
		return &TableError{Table: m.options.Table, What: "the connections of the pool have autocommit=0: nothing would be remembered", Cure: "take autocommit=0 out of the data source name, or the server's configuration"}
	}
	return nil
}

// migration makes the table. Times are UTC.
func (m *Meter) migration() string {
	e, engine := m.engine, ""
	if _, ok := e.(*mysql); ok {
		engine = " ENGINE=InnoDB"
	}
	at := strings.TrimSuffix(e.declare(instants), " NULL")
	return fmt.Sprintf(`CREATE TABLE %s (
	hash CHAR(64) NOT NULL PRIMARY KEY,
	sends BIGINT NOT NULL,
	sent_at %[2]s NULL,
	flying BIGINT NOT NULL,
	flying_until %[2]s NULL,
	forget_at %[2]s NOT NULL,
	answer BIGINT NOT NULL,
	token CHAR(36) NOT NULL
)%[3]s;
%[4]s
`, e.quote(m.options.Table), at, engine, e.index("cronce_forget_"+base(m.options.Table), m.options.Table, "forget_at"))
}

// begin puts on record, under a token, that a send is under way, in one statement that also answers whether it may be.
// After an error that may be on record nevertheless: it is taken back if it can be.
func (m *Meter) begin(ctx context.Context, hash, token string) (answer int64, err error) {
	m.tidy(ctx)
	if answer, err = m.exec(ctx, m.beginning(hash, token)); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
		defer cancel()
		m.again(ctx, func() error {
			_, err := m.db.ExecContext(ctx, "UPDATE "+m.table()+" SET flying = flying - 1 WHERE hash = '"+hash+"' AND token = '"+token+"' AND flying > 0")
			return err
		})
	}
	return answer, err
}

// beginning is the statement of begin.
//
// What was under way longer than it may take has ended in doubt: it is counted as sent then.
func (m *Meter) beginning(hash, token string) string {
	_, isMySQL := m.engine.(*mysql)
	now, past, until, forget := m.at(0), m.at(-m.options.Window), m.at(m.flight()), m.at(m.flight()+m.options.Window)
	t := "t."
	if isMySQL {
		t = ""
	}
	live := fmt.Sprintf("(%[1]sflying > 0 AND %[1]sflying_until > %[2]s)", t, now)
	doubt := fmt.Sprintf("(%[1]sflying > 0 AND %[1]sflying_until <= %[2]s)", t, now)
	sends := fmt.Sprintf("(CASE WHEN %[1]ssent_at > %[2]s THEN %[1]ssends ELSE 0 END + CASE WHEN %[3]s AND %[1]sflying_until > %[2]s THEN %[1]sflying ELSE 0 END)", t, past, doubt)
	reply, may := "1", "1 = 1"
	if m.options.Block {
		reply = fmt.Sprintf("CASE WHEN %s THEN %d WHEN %s > 0 THEN %d ELSE %d END", live, flying, sends, blocked, granted)
		may = "(" + reply + ") = " + strconv.Itoa(granted)
	}
	if isMySQL { // assigns one after the other, each seeing those before
		may = "answer = " + strconv.Itoa(granted)
		reply = "LAST_INSERT_ID(" + reply + ")"
	}
	set := []string{
		"answer = " + reply,
		"sends = " + sends,
		fmt.Sprintf("sent_at = CASE WHEN %[2]s AND (%[1]ssent_at IS NULL OR %[1]ssent_at < %[1]sflying_until) THEN %[1]sflying_until ELSE %[1]ssent_at END", t, doubt),
		fmt.Sprintf("flying = CASE WHEN %s THEN %sflying ELSE 0 END + CASE WHEN %s THEN 1 ELSE 0 END", live, t, may),
		fmt.Sprintf("flying_until = CASE WHEN %s THEN %s ELSE %sflying_until END", may, until, t),
		fmt.Sprintf("forget_at = CASE WHEN %s THEN %s ELSE %sforget_at END", may, forget, t),
		fmt.Sprintf("token = CASE WHEN %s THEN '%s' ELSE %stoken END", may, token, t),
	}
	insert := fmt.Sprintf("(hash, sends, flying, flying_until, forget_at, answer, token) VALUES ('%s', 0, 1, %s, %s, %d, '%s') ", hash, until, forget, granted, token)
	if isMySQL {
		return "INSERT INTO " + m.table() + " " + insert + "ON DUPLICATE KEY UPDATE " + strings.Join(set, ", ")
	}
	return "INSERT INTO " + m.table() + " AS t " + insert + "ON CONFLICT (hash) DO UPDATE SET " + strings.Join(set, ", ") + " RETURNING answer"
}

// end puts on record what came of a send, and returns how many there are within the window; 0 if it failed cleanly.
func (m *Meter) end(ctx context.Context, hash, token string, clean bool) (sends int64, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	_, isMySQL := m.engine.(*mysql)
	ours := "flying > 0"
	if m.options.Block { // one at a time: what flies after ours took too long is another's
		ours += " AND token = '" + token + "'"
	}
	landed := "flying = CASE WHEN " + ours + " THEN flying - 1 ELSE flying END"
	if clean {
		return 0, m.again(ctx, func() error {
			_, err := m.db.ExecContext(ctx, "UPDATE "+m.table()+" SET "+landed+" WHERE hash = '"+hash+"'")
			return err
		})
	}
	count := fmt.Sprintf("CASE WHEN sent_at > %s THEN sends + 1 ELSE 1 END", m.at(-m.options.Window))
	if isMySQL {
		count = "LAST_INSERT_ID(" + count + ")"
	}
	update := fmt.Sprintf("UPDATE %s SET sends = %s, sent_at = %s, forget_at = %s, %s WHERE hash = '%s'",
		m.table(), count, m.at(0), m.at(m.flight()+m.options.Window), landed, hash)
	if !isMySQL {
		update += " RETURNING sends"
	}
	return m.exec(ctx, update)
}

// endPatience bounds what a worker waits for to tell that its send has ended.
const endPatience = 10 * time.Second

// exec runs a statement and returns the number that it answers.
func (m *Meter) exec(ctx context.Context, query string) (n int64, err error) {
	err = m.again(ctx, func() error {
		if _, ok := m.engine.(*mysql); !ok {
			return each(ctx, m.db, func(scan func(...any) error) error { return scan(&n) }, query)
		}
		result, err := m.db.ExecContext(ctx, query)
		if err == nil {
			n, err = result.LastInsertId()
		}
		return err
	})
	return n, err
}

// again makes a statement anew for as long as the database gives way to others.
func (m *Meter) again(ctx context.Context, work func() error) error {
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := work()
		if err == nil || !m.engine.again(err) || wait(ctx, pause/2+rand.N(pause)) != nil {
			return err
		}
	}
}

// tidy deletes what need not be remembered any more, a little at a time.
func (m *Meter) tidy(ctx context.Context) {
	now, due := time.Now(), m.prune.Load()
	if now.UnixNano() < due || !m.prune.CompareAndSwap(due, now.Add(min(m.options.Window/10, time.Minute)).UnixNano()) {
		return
	}
	if err := m.again(ctx, func() error { return m.forget(ctx) }); err != nil && ctx.Err() == nil {
		m.options.Log.Warn("the table of sends cannot be pruned", "table", m.options.Table, "error", err)
	}
}

// forgetAtOnce bounds what one statement deletes.
const forgetAtOnce = 500

func (m *Meter) forget(ctx context.Context) error {
	for {
		var old []string
		err := each(ctx, m.db, func(scan func(...any) error) error {
			var hash string
			err := scan(&hash)
			old = append(old, "'"+hash+"'")
			return err
		}, fmt.Sprintf("SELECT hash FROM %s WHERE forget_at <= %s ORDER BY forget_at LIMIT %d", m.table(), m.at(0), forgetAtOnce))
		if err != nil || len(old) == 0 {
			return err
		}
		_, err = m.db.ExecContext(ctx, fmt.Sprintf("DELETE FROM %s WHERE hash IN (%s) AND forget_at <= %s", m.table(), strings.Join(old, ", "), m.at(0)))
		if err != nil || len(old) < forgetAtOnce {
			return err
		}
	}
}

func (m *Meter) table() string { return m.engine.quote(m.options.Table) }

// flight is how long a send may be under way; what ends at its time-out needs a moment to say so.
func (m *Meter) flight() time.Duration { return m.options.Timeout + endPatience }

// at is SQL for the database's time and so much.
func (m *Meter) at(d time.Duration) string {
	c := column{kind: instants}
	if d == 0 {
		return m.utc(m.engine.now(c))
	}
	return m.utc(m.engine.after(c, strconv.FormatFloat(d.Seconds(), 'f', 3, 64)))
}

// utc: the connections are the pool's, and may be set to any zone.
func (m *Meter) utc(now string) string {
	if _, ok := m.engine.(*mysql); ok {
		return "(" + strings.ReplaceAll(now, "NOW(6)", "UTC_TIMESTAMP(6)") + ")"
	}
	return "(" + now + ")"
}
