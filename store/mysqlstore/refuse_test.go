package mysqlstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/testenv"
)

// refused checks that somebody has to cure it, and is told so by these words.
func refused(t *testing.T, err error, says ...string) {
	t.Helper()
	var config *cronce.ConfigError
	if !errors.As(err, &config) || config.Cure == "" {
		t.Errorf("%v, want a *ConfigError that says %q", err, says)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%v does not say %q", err, s)
		}
	}
}

// byHand is a claim without a tick.
func byHand(job string) cronce.Claim {
	return cronce.Claim{RunID: cronce.NewRunID(), Job: job, TTL: cronce.MinTTL}
}

// TestSettingsAreRefused defends that a server which would lose a decision, or
// is not the one to ask, is refused by name: when the store is opened, and
// where that can be set later also by each claim. One that takes no writes is for claims
// as one that is away: it may be a failover, and passes.
func TestSettingsAreRefused(t *testing.T) {
	t.Parallel()
	server := testenv.StartMariaDB(t, "--log-bin", "--sync-binlog=1", "--server-id=1")
	s := cronce.NewStore(open(t, server.URL()))
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, bad, good string
		claims          bool // are refused too
		passes          bool // they are told that it takes no writes now
	}{
		{"innodb_flush_log_at_trx_commit", "2", "1", true, false},
		{"innodb_flush_log_at_trx_commit", "0", "1", true, false},
		{"read_only", "1", "0", false, true},
		{"sync_binlog", "0", "1", false, false},
		{"binlog_format", "STATEMENT", "MIXED", false, false},
		{"max_allowed_packet", "65536", "16777216", false, false},
	} {
		server.SQL("SET GLOBAL " + c.name + " = " + c.bad)
		_, err := Open(t.Context(), Options{URL: server.URL()})
		refused(t, err, strings.TrimPrefix(c.name, "innodb_"))
		_, err = s.Claim(t.Context(), byHand("job"))
		if c.claims {
			refused(t, err)
		}
		if c.passes && (!errors.As(err, new(*cronce.UnavailableError)) || !strings.Contains(err.Error(), c.name)) {
			t.Errorf("a claim with %s=%s: %v, want an *UnavailableError that names it", c.name, c.bad, err)
		}
		server.SQL("SET GLOBAL " + c.name + " = " + c.good)
		l, err := s.Claim(t.Context(), byHand("job "+c.name+c.bad))
		if err != nil {
			t.Errorf("after the cure of %s: %v", c.name, err)
		} else if err := s.Finish(t.Context(), l, cronce.Result{Outcome: cronce.Succeeded}); err != nil {
			t.Error(err)
		}
	}
}

func TestProblems(t *testing.T) {
	good := func(version string) settings {
		return settings{"version": version, "read_only": "OFF", "innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": "ON",
			"log_bin": "OFF", "sync_binlog": "0", "binlog_format": "STATEMENT", "max_allowed_packet": "16777216"}
	}
	for _, c := range []struct{ version, says string }{
		{"10.11.19-MariaDB-0+deb12u1", ""},
		{"10.6.0-MariaDB", ""},
		{"12.0.2-MariaDB-ubu2404", ""},
		{"10.5.29-MariaDB-1:10.5.29", "too old"},
		{"8.0.1-dmr", ""},
		{"8.4.3", ""},
		{"9.1.0-commercial", ""},
		{"8.0.0-dmr", "too old"},
		{"5.7.44-log", "too old"},
		{"8.0.11-TiDB-v8.5.0", "TiDB"},
		{"what", "too old"},
	} {
		if what, cure := good(c.version).problem(); what != "" != (c.says != "") || !strings.Contains(what, c.says) || (what == "") != (cure == "") {
			t.Errorf("version %s: %q, %q; want %q", c.version, what, cure, c.says)
		}
	}
	for _, c := range []struct{ name, value string }{
		{"super_read_only", "ON"}, {"innodb_read_only", "ON"}, {"innodb_doublewrite", "OFF"}, {"innodb_flush_log_at_trx_commit", "3"}, {"innodb_flush_log_at_trx_commit", ""},
	} {
		s := good("8.0.40")
		s[c.name] = c.value
		if what, _ := s.problem(); !strings.Contains(what, c.name) {
			t.Errorf("%s=%s: %q", c.name, c.value, what)
		}
	}
}

// TestEngines defends that no table knows no transactions, whoever sees to it.
func TestEngines(t *testing.T) {
	t.Parallel()
	server := testenv.StartMariaDB(t, "--default-storage-engine=MyISAM")
	open(t, server.URL())
	if got := server.SQL("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'cronce' AND engine = 'InnoDB'"); got != "4" {
		t.Errorf("%s tables have InnoDB", got)
	}
	for _, engine := range []string{"MyISAM", "Aria"} {
		server.SQL("ALTER TABLE cronce_runs ENGINE=" + engine)
		_, err := Open(t.Context(), Options{URL: server.URL()})
		refused(t, err, "cronce_runs", engine, "ENGINE=InnoDB")
	}
	server.SQL("ALTER TABLE cronce_runs ENGINE=InnoDB")
	open(t, server.URL())

	server.SQL("SET GLOBAL enforce_storage_engine = Aria")
	_, err := Open(t.Context(), Options{URL: server.Database(t)})
	refused(t, err, "InnoDB", "enforce_storage_engine")
}

// TestSessionsAreOurs defends that what the server is set to does not change
// what a statement of ours means.
func TestSessionsAreOurs(t *testing.T) {
	t.Parallel()
	server := testenv.StartMariaDB(t, "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT", "--transaction-isolation=SERIALIZABLE",
		"--autocommit=0", "--completion-type=RELEASE", "--default-time-zone=-11:00", "--character-set-server=latin1", "--collation-server=latin1_swedish_ci",
		"--skip-character-set-client-handshake", "--innodb-lock-wait-timeout=1", "--sql-safe-updates=1")
	server.SQL("SET GLOBAL sql_select_limit = 1; SET GLOBAL tx_read_only = 1")
	s, err := Open(t.Context(), Options{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	names := []string{`a"b'c\`, `A"B'C\`, "日報 é", "日報 e\u0301"}
	for _, name := range names {
		c := byHand(name)
		c.Tick = time.Now().UTC().Truncate(time.Second).Add(-time.Second)
		c.Definition = cronce.Definition{Schedule: `* "' \`, Zone: "UTC"}
		c.Holder = cronce.Holder{Host: `h"'\`, PID: 1}
		l, err := s.Claim(t.Context(), c)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if l, err = s.Renew(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		want := cronce.Result{Outcome: cronce.Failed, Message: `it said "no" \' 💥`, Output: []byte("\\\x00'\xff")}
		if err := s.Finish(t.Context(), l, want); err != nil {
			t.Fatal(err)
		}
		r, _, err := s.Run(t.Context(), c.RunID)
		if err != nil || r.Job != name || r.Message != want.Message || string(r.Output) != string(want.Output) || r.Holder != c.Holder || !r.Tick.Equal(c.Tick) || time.Since(r.End).Abs() > time.Minute {
			t.Errorf("on record is %+v, %v", r, err)
		}
		if state, _, err := s.Job(t.Context(), name); err != nil || state.Definition != c.Definition {
			t.Errorf("the job is %+v, %v", state, err)
		}
	}
	if states, err := s.Jobs(t.Context()); err != nil || len(states) != len(names) {
		t.Errorf("%d jobs, %v", len(states), err)
	}
}
