package bench

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
	"github.com/cronce/cronce/store/mysqlstore"
)

var mysqlTime = flag.Duration("mysql-time", 3*time.Second, "measure each way of keeping a lease in MariaDB for so long, each round")

// BenchmarkMySQL shows pairs of a claim and its end, each of another job, on one
// MariaDB server, beside what people write by hand. All of them flush what they
// commit, except GET_LOCK, which keeps nothing.
func BenchmarkMySQL(b *testing.B) {
	server := testenv.StartMariaDB(b)
	file, err := os.ReadFile(server.SQL("SELECT @@pid_file"))
	if err != nil {
		b.Fatal(err)
	}
	m := &mysqlBench{url: server.URL(), pid: string(bytes.TrimSpace(file)), all: map[string][]mysqlPairs{}}
	if err := m.open(); err != nil {
		b.Fatal(err)
	}
	defer m.close()
	for range *rounds {
		for _, clients := range []int{1, 64} {
			for _, r := range m.rivals() {
				p, err := m.measure(clients, r.pair)
				if err != nil {
					b.Fatalf("%s: %v", r.name, err)
				}
				name := fmt.Sprintf("%s/%d", r.name, clients)
				m.all[name] = append(m.all[name], p)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	m.table(os.Stdout)
}

// mysqlBench is the server, and the ways to use it.
type mysqlBench struct {
	url, pid string
	store    *cronce.Store
	db       *sql.DB
	ticks    [64]time.Time // of cronce's jobs, and of those by hand
	all      map[string][]mysqlPairs
}

func (m *mysqlBench) open() (err error) {
	ctx := context.Background()
	if m.store, err = mysqlstore.Open(ctx, mysqlstore.Options{URL: m.url, Conns: 64}); err != nil {
		return err
	}
	if err := m.store.Init(ctx); err != nil {
		return err
	}
	u, err := url.Parse(m.url)
	if err != nil {
		return err
	}
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = u.User.Username(), "tcp", u.Host, u.Path[1:]
	c.Passwd, _ = u.User.Password()
	c.ParseTime, c.InterpolateParams = true, true
	c.Params = map[string]string{"tx_isolation": "'READ-COMMITTED'"}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return err
	}
	m.db = sql.OpenDB(connector)
	m.db.SetMaxOpenConns(64)
	m.db.SetMaxIdleConns(64)
	for _, q := range []string{
		"CREATE TABLE lease (name VARCHAR(200) PRIMARY KEY, holder VARCHAR(64) NOT NULL, fence BIGINT NOT NULL, expires DATETIME(6) NOT NULL) ENGINE=InnoDB",
		"CREATE TABLE history (id CHAR(36) PRIMARY KEY, name VARCHAR(200) NOT NULL, tick DATETIME NOT NULL, fence BIGINT NOT NULL, holder TEXT NOT NULL, started DATETIME(6) NOT NULL," +
			" ended DATETIME(6), state VARCHAR(20) NOT NULL, exit_code INT, UNIQUE (name, tick)) ENGINE=InnoDB",
		"INSERT INTO lease SELECT CONCAT('job ', seq), '', 0, '2000-01-01' FROM seq_0_to_63",
	} {
		if _, err := m.db.Exec(q); err != nil {
			return err
		}
	}
	for i := range m.ticks { // all of them are due
		m.ticks[i] = time.Now().UTC().Truncate(time.Second).AddDate(-20, 0, 0)
	}
	return nil
}

func (m *mysqlBench) close() {
	m.store.Close()
	m.db.Close()
}

// rival is a way to have a job to oneself: pair takes job i and gives it back.
type rival struct {
	name string
	pair func(i int) error
}

const byCronce = "cronce"

func (m *mysqlBench) rivals() []rival {
	return []rival{
		{byCronce, m.cronce},
		{"row lease with a record", m.recorded},
		{"row lease", m.locked},
		{"one UPDATE", m.updated},
		{"GET_LOCK", m.getLock},
	}
}

func (m *mysqlBench) cronce(i int) error {
	ctx := context.Background()
	m.ticks[i] = m.ticks[i].Add(time.Second)
	l, err := m.store.Claim(ctx, cronce.Claim{
		RunID: cronce.NewRunID(), Job: fmt.Sprint("job ", i), Tick: m.ticks[i],
		Holder: cronce.Holder{Host: "host", PID: os.Getpid(), User: "user", Via: "bench"},
	})
	if err != nil {
		return err
	}
	return m.store.Finish(ctx, l, cronce.Result{Outcome: cronce.Succeeded})
}

// take locks the lease's row, looks whether it is free, and takes it. more is
// done in the same transaction.
func (m *mysqlBench) take(name, id string, more func(tx *sql.Tx, fence int64) error) error {
	tx, err := m.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var fence int64
	var expires, now time.Time
	if err := tx.QueryRow("SELECT fence, expires, UTC_TIMESTAMP(6) FROM lease WHERE name = ? FOR UPDATE", name).Scan(&fence, &expires, &now); err != nil {
		return err
	}
	if now.Before(expires) {
		return errors.New("it is not free")
	}
	if _, err := tx.Exec("UPDATE lease SET holder = ?, fence = ?, expires = ? WHERE name = ?", id, fence+1, now.Add(15*time.Second), name); err != nil {
		return err
	}
	if more != nil {
		if err := more(tx, fence+1); err != nil {
			return err
		}
	}
	return tx.Commit()
}

const release = "UPDATE lease SET expires = UTC_TIMESTAMP(6) WHERE name = ? AND holder = ? AND expires > UTC_TIMESTAMP(6)"

// locked is the row lease that many write: lock the row, look, take it.
func (m *mysqlBench) locked(i int) error {
	name, id := fmt.Sprint("job ", i), cronce.NewRunID()
	if err := m.take(name, id, nil); err != nil {
		return err
	}
	return one(m.db.Exec(release, name, id))
}

// recorded also decides the tick, and puts the run on record: what cronce's
// claim promises, written by hand.
func (m *mysqlBench) recorded(i int) error {
	m.ticks[i] = m.ticks[i].Add(time.Second)
	name, id := fmt.Sprint("job ", i), cronce.NewRunID()
	err := m.take(name, id, func(tx *sql.Tx, fence int64) error {
		return one(tx.Exec("INSERT INTO history (id, name, tick, fence, holder, started, state) VALUES (?, ?, ?, ?, ?, UTC_TIMESTAMP(6), 'running')",
			id, name, m.ticks[i], fence, `{"host":"host","pid":1,"user":"user","via":"bench"}`))
	})
	if err != nil {
		return err
	}
	tx, err := m.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := one(tx.Exec(release, name, id)); err != nil {
		return err
	}
	if err := one(tx.Exec("UPDATE history SET state = 'succeeded', ended = UTC_TIMESTAMP(6), exit_code = 0 WHERE id = ?", id)); err != nil {
		return err
	}
	return tx.Commit()
}

// updated is the least: whoever's UPDATE finds the lease free has it, and does
// not learn its fence.
func (m *mysqlBench) updated(i int) error {
	name, id := fmt.Sprint("job ", i), cronce.NewRunID()
	if err := one(m.db.Exec("UPDATE lease SET holder = ?, fence = fence + 1, expires = UTC_TIMESTAMP(6) + INTERVAL 15 SECOND WHERE name = ? AND expires <= UTC_TIMESTAMP(6)", id, name)); err != nil {
		return err
	}
	return one(m.db.Exec(release, name, id))
}

func one(r sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("%d rows, %w", n, err)
	}
	return nil
}

func (m *mysqlBench) getLock(i int) error {
	conn, err := m.db.Conn(context.Background())
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, q := range []string{"SELECT GET_LOCK(?, 0)", "SELECT RELEASE_LOCK(?)"} {
		var got int
		if err := conn.QueryRowContext(context.Background(), q, fmt.Sprint("job ", i)).Scan(&got); err != nil || got != 1 {
			return fmt.Errorf("%s: %d, %w", q, got, err)
		}
	}
	return nil
}

// mysqlPairs is what one measurement found.
type mysqlPairs struct {
	Rate     float64 // a second
	P50, P99 float64 // ms
	CPU      float64 // ms a pair, of this process and the server
}

// measure lets so many clients make pairs, each on its own job.
func (m *mysqlBench) measure(clients int, pair func(int) error) (p mysqlPairs, err error) {
	var wg sync.WaitGroup
	took, errs := make([][]float64, clients), make([]error, clients)
	before := cpu() + m.serverCPU()
	start := time.Now()
	for i := range clients {
		wg.Go(func() {
			for time.Since(start) < *mysqlTime && errs[i] == nil {
				began := time.Now()
				errs[i] = pair(i)
				took[i] = append(took[i], ms(time.Since(began)))
			}
		})
	}
	wg.Wait()
	span := time.Since(start)
	all := slices.Concat(took...)
	slices.Sort(all)
	p.Rate = float64(len(all)) / span.Seconds()
	p.P50, p.P99 = all[len(all)/2], all[len(all)*99/100]
	p.CPU = ms(cpu()+m.serverCPU()-before) / float64(len(all))
	return p, errors.Join(errs...)
}

// serverCPU is what the server has used so far, user and system.
func (m *mysqlBench) serverCPU() time.Duration {
	b, err := os.ReadFile("/proc/" + m.pid + "/stat")
	if err != nil {
		panic(err)
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// table shows the medians to people.
func (m *mysqlBench) table(out io.Writer) {
	fmt.Fprintf(out, "\nPairs of a claim and its end on one MariaDB; medians of %d rounds of %s.\n", *rounds, *mysqlTime)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "clients\t\tpairs/s\tcronce of it\tp50 ms\tp99 ms\tCPU ms a pair\t")
	for _, clients := range []int{1, 64} {
		of := func(name string, figure func(mysqlPairs) float64) float64 {
			var values []float64
			for _, p := range m.all[fmt.Sprintf("%s/%d", name, clients)] {
				values = append(values, figure(p))
			}
			return median(values)
		}
		rate := func(p mysqlPairs) float64 { return p.Rate }
		for _, r := range m.rivals() {
			fmt.Fprintf(w, "%d\t%s\t%.0f\t%.2f\t%.2f\t%.2f\t%.3f\t\n", clients, r.name, of(r.name, rate), of(byCronce, rate)/of(r.name, rate),
				of(r.name, func(p mysqlPairs) float64 { return p.P50 }), of(r.name, func(p mysqlPairs) float64 { return p.P99 }), of(r.name, func(p mysqlPairs) float64 { return p.CPU }))
		}
	}
	w.Flush()
}
