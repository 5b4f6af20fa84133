package rows_test

import (
	"bufio"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronce/cronce/rows"
)

// TestMain makes a worker of this binary where a test asks for one.
func TestMain(m *testing.M) {
	if source := os.Getenv("ROWS_TEST_SOURCE"); source != "" {
		if err := worker(os.Getenv("ROWS_TEST_DRIVER"), source, os.Getenv("ROWS_TEST_SENDS"), os.Getenv("ROWS_TEST_IDEMPOTENT") != ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // most of them wait for servers and for leases to end
		panic(err)
	}
	mysql.SetLogger(log.New(io.Discard, "", 0)) // connections are cut on purpose
	os.Exit(m.Run())
}

// workers is how many handlers a worker process has.
const workers = 4

// worker drains until nothing is left, and writes what it sends into a file: that is what the outside world sees, whatever
// becomes of the process.
func worker(driver, source, sends string, idempotent bool) error {
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	defer db.Close()
	out, err := os.OpenFile(sends, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	d, err := rows.Open(context.Background(), db, notices, rows.Options{Workers: workers, Batch: 50, Timeout: time.Second, Lease: 6 * time.Second,
		Backoff: time.Millisecond, Crashes: 1000, Idempotent: idempotent})
	if err != nil {
		return err
	}
	_, err = d.Drain(context.Background(), func(_ context.Context, row rows.Row) error {
		time.Sleep(rand.N(2 * time.Millisecond))
		_, err := fmt.Fprintf(out, "%v\n", row.Key[0])
		time.Sleep(rand.N(2 * time.Millisecond))
		return err
	})
	return err
}

// start starts a worker process.
func (db *database) start(sends string, idempotent bool) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ROWS_TEST_DRIVER="+db.engine, "ROWS_TEST_SOURCE="+db.source, "ROWS_TEST_SENDS="+sends)
	if idempotent {
		cmd.Env = append(cmd.Env, "ROWS_TEST_IDEMPOTENT=yes")
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		db.t.Error(err)
	}
	return cmd
}

// massacre has three worker processes drain n rows, kills them at random, and returns how often each row was sent and how
// many were killed.
func (db *database) massacre(n int, idempotent bool) (sent map[int64]int, killed int) {
	t := db.t
	db.fill(notices, n)
	sends := filepath.Join(t.TempDir(), "sends")
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 3 {
		wg.Go(func() {
			for range 4 {
				cmd := db.start(sends, idempotent)
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				select {
				case err := <-ended:
					if err != nil {
						t.Errorf("a worker that nobody killed: %v", err)
					}
				case <-time.After(200*time.Millisecond + rand.N(700*time.Millisecond)):
					cmd.Process.Kill()
					if <-ended != nil {
						mu.Lock()
						killed++
						mu.Unlock()
					}
				}
			}
		})
	}
	wg.Wait()
	// The last one finds what the dead have left once their leases end.
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if err := db.start(sends, idempotent).Wait(); err != nil {
			t.Fatal(err)
		}
		if db.number("SELECT COUNT(*) FROM notices WHERE status IN ('pending', 'sending')") == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d rows are pending or sending still", db.number("SELECT COUNT(*) FROM notices WHERE status IN ('pending', 'sending')"))
		}
	}
	file, err := os.Open(sends)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sent = map[int64]int{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		id, err := strconv.ParseInt(strings.TrimSpace(lines.Text()), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sent[id]++
	}
	return sent, killed
}

// byState lists the ids of rows in a state.
func (db *database) byState(state string) map[int64]bool {
	db.t.Helper()
	found, err := db.Query("SELECT id FROM notices WHERE status = '" + state + "'")
	if err != nil {
		db.t.Fatal(err)
	}
	defer found.Close()
	ids := map[int64]bool{}
	for found.Next() {
		var id int64
		if err := found.Scan(&id); err != nil {
			db.t.Fatal(err)
		}
		ids[id] = true
	}
	return ids
}

// TestKilledWorkers defends what is promised when processes die: each row is sent once at most, each that may have been
// is unknown, and those are no more than the workers that died.
func TestKilledWorkers(t *testing.T) {
	t.Parallel()
	const n = 3000
	engines(t, func(t *testing.T, db *database) {
		sends, killed := db.massacre(n, false)
		if killed == 0 {
			t.Fatal("no worker was killed")
		}
		sent, unknown := db.byState("sent"), db.byState("unknown")
		if len(sent)+len(unknown) != n {
			t.Errorf("%d sent and %d unknown are not all %d rows", len(sent), len(unknown), n)
		}
		if len(unknown) > killed*workers {
			t.Errorf("%d rows are unknown; %d processes died, with %d workers each", len(unknown), killed, workers)
		}
		for id := range int64(n) {
			switch times := sends[id+1]; {
			case times > 1:
				t.Errorf("row %d was sent %d times", id+1, times)
			case times == 0 && sent[id+1]:
				t.Errorf("row %d is said to be sent, and was not", id+1)
			}
		}
		t.Logf("%d killed, %d rows unknown", killed, len(unknown))
	})
}

// TestKilledIdempotentWorkers defends that where the job is idempotent nothing stays in doubt.
func TestKilledIdempotentWorkers(t *testing.T) {
	t.Parallel()
	const n = 3000
	engines(t, func(t *testing.T, db *database) {
		sends, killed := db.massacre(n, true)
		if sent := db.byState("sent"); len(sent) != n || len(sends) != n {
			t.Errorf("%d rows of %d are sent, and %d were", len(sent), n, len(sends))
		}
		again := 0
		for _, times := range sends {
			again += times - 1
		}
		if again > killed*workers {
			t.Errorf("%d sends were repeated; %d processes died, with %d workers each", again, killed, workers)
		}
		if crashes := db.number("SELECT COALESCE(SUM(cronce_crashes), 0) FROM notices"); crashes > int64(killed*workers) || crashes < int64(again) {
			t.Errorf("%d crashes are on record; %d rows were sent again, %d processes died", crashes, again, killed)
		}
	})
}
