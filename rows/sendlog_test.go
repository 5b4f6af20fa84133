package rows_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cronce/cronce/rows"
)

// repeats are all that Duplicates lists.
func repeats(t *testing.T, db *database, log rows.LogTable, window time.Duration) (all []rows.Repeat) {
	t.Helper()
	for r, err := range rows.Duplicates(t.Context(), db.DB, log, window) {
		if mine := new(rows.TableError); errors.As(err, &mine) && strings.Contains(mine.What, "no time that can be read") {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// sum is what a content is listed as.
func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// TestDuplicates defends the answer to "what went out twice?" from a log that some other program wrote.
func TestDuplicates(t *testing.T) {
	engines(t, func(t *testing.T, db *database) {
		db.run("CREATE TABLE log (id INTEGER PRIMARY KEY, recipient VARCHAR(80), body TEXT, at TIMESTAMP NULL, result VARCHAR(20))")
		base := time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC) // also over a change of clocks
		id := 0
		log := func(target, body string, minute int, result string) {
			id++
			at := "NULL"
			if minute >= 0 {
				at = "'" + base.Add(time.Duration(minute)*time.Minute).Format("2006-01-02 15:04:05") + "'"
			}
			db.run(fmt.Sprintf("INSERT INTO log VALUES (%d, %s, %s, %s, '%s')", id, target, body, at, result))
		}
		db.SetMaxOpenConns(1) // the zone is the connection's
		switch db.engine {
		case "mysql":
			db.run("SET time_zone = '+00:00'")
		case "pgx":
			db.run("SET timezone = 'Europe/Berlin'")
		}
		log("'ann'", "'a'", 0, "sent")
		log("'ann'", "'a'", 59, "sent")
		log("'ann'", "'a'", 118, "unknown")  // 59 after the one before
		log("'ann'", "'a'", 179, "sent")     // 61 after
		log("'ann'", "'a'", 239, "sent")     // 60 after: another group
		log("'ann'", "'b'", 1, "sent")       // another content
		log("'Ann'", "'a'", 1, "sent")       // another target
		log("'bob'", "'a'", 0, "failed")     // was not sent
		log("'bob'", "'a'", 1, "sent")       //
		log("'cy'", "NULL", 5, "sent")       //
		log("'cy'", "NULL", 6, "sent")       //
		log("'cy'", "''", 6, "sent")         // is not NULL
		log("'dora'", "'a'", -1, "sent")     // never
		log("'dora'", "'a'", -1, "sent")     //
		log("'eve'", "'\u00e4'", 0, "sent")  //
		log("'eve'", "'\u00e4'", 60, "sent") //
		log("'eve'", "'a'", 60, "sent")      // some collations take it for the same
		log("'eve'", "'A'", 60, "sent")      //
		table := rows.LogTable{Name: "log", Target: "recipient", Content: []string{"body"}, Time: "at", State: "result"}
		at := func(minute int) time.Time { return base.Add(time.Duration(minute) * time.Minute) }
		want := []rows.Repeat{
			{Target: "ann", Content: []string{sum("a")}, Sends: 3, First: at(0), Last: at(118)},
			{Target: "eve", Content: []string{sum("\u00e4")}, Sends: 2, First: at(0), Last: at(60)},
			{Target: "cy", Content: []string{""}, Sends: 2, First: at(5), Last: at(6)},
			{Target: "ann", Content: []string{sum("a")}, Sends: 2, First: at(179), Last: at(239)},
		}
		if got := repeats(t, db, table, 0); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		if got := repeats(t, db, table, 58*time.Minute); len(got) != 1 || got[0].Target != "cy" {
			t.Errorf("within 58 minutes: %v", got)
		}
		table.Sent = []string{"sent", "failed"}
		if got := repeats(t, db, table, time.Minute); len(got) != 2 || got[0].Target != "bob" {
			t.Errorf("with failed ones: %v", got)
		}
		table.State, table.Sent, table.Where = "", nil, "recipient = 'ann'"
		if got := repeats(t, db, table, 2*time.Hour); len(got) != 1 || got[0].Sends != 5 {
			t.Errorf("of ann alone: %v", got)
		}
		for range rows.Duplicates(t.Context(), db.DB, rows.LogTable{Name: "log", Target: "recipient", Content: []string{"body"}, Time: "at"}, 0) {
			break // the connection is free again, or what follows waits for ever
		}
		table.Time = "when"
		for _, err := range rows.Duplicates(t.Context(), db.DB, table, 0) {
			if !errors.As(err, new(*rows.TableError)) {
				t.Errorf("a column that is not there: %v", err)
			}
		}
	})
}

// TestDuplicates_Numbers defends that a log may have numbers: targets, contents of several columns, Unix times.
func TestDuplicates_Numbers(t *testing.T) {
	engines(t, func(t *testing.T, db *database) {
		db.run("CREATE TABLE log (customer BIGINT, template INT, amount DECIMAL(10,2), sent_at BIGINT);\n" +
			"INSERT INTO log VALUES (1, 7, 9.50, 1000), (1, 7, 9.50, 1600), (1, 8, 9.50, 1000), (1, 7, 9.51, 1000), (2, 7, 9.50, 1000)")
		got := repeats(t, db, rows.LogTable{Name: "log", Target: "customer", Content: []string{"template", "amount"}, Time: "sent_at"}, 10*time.Minute)
		if len(got) != 1 || got[0].Target != "1" || got[0].Sends != 2 || !got[0].Last.Equal(time.Unix(1600, 0)) {
			t.Errorf("%+v", got)
		}
	})
}

// TestDuplicates_Datetime defends that times without a zone are apart as they are written, whatever zone a session has.
func TestDuplicates_Datetime(t *testing.T) {
	db := mariadb(t)
	db.SetMaxOpenConns(1)
	db.run("SET time_zone = '+05:00';\nCREATE TABLE log (target VARCHAR(80), body TEXT, at DATETIME(6));\n" +
		"INSERT INTO log VALUES ('ann', 'a', '2026-03-29 01:59:59.75'), ('ann', 'a', '2026-03-29 02:00:00.25')")
	got := repeats(t, db, rows.LogTable{Name: "log", Target: "target", Content: []string{"body"}, Time: "at"}, time.Second)
	if len(got) != 1 || got[0].Last.Sub(got[0].First) != 500*time.Millisecond || got[0].First.Hour() != 1 {
		t.Errorf("%+v", got)
	}
}

// TestDuplicates_Times defends that no send is passed over in silence: its time is read, or it is said how many cannot be.
func TestDuplicates_Times(t *testing.T) {
	engines(t, func(t *testing.T, db *database) {
		any, read := "VARCHAR(40)", []string{}
		if db.engine == "sqlite" {
			any = "" // it keeps what it gets
			read = []string{"1764468000", "1764468000000", "'1764468000'", "'1764468000123'", "'2025-11-30 02:00:00'", "'2025-11-30T03:00:00+01:00'"}
		}
		log := rows.LogTable{Name: "log", Target: "recipient", Content: []string{"body"}, Time: "at"}
		for _, kind := range []string{any, "BIGINT"} {
			db.run("CREATE TABLE log (recipient VARCHAR(80), body VARCHAR(80), at " + kind + ")")
			if kind == "BIGINT" {
				read = []string{"1764468000", "1764468000000"}
			}
			for _, at := range read {
				db.run("INSERT INTO log VALUES ('ann', 'a', " + at + "), ('ann', 'a', " + at + ")")
				for r, err := range rows.Duplicates(t.Context(), db.DB, log, time.Second) {
					if err != nil || r.Sends != 2 || r.First.Unix() != 1764468000 {
						t.Errorf("%s: %v, %+v", at, err, r)
					}
				}
				db.run("DELETE FROM log")
			}
			unread := []string{"NULL", "1764468000000000"}
			if kind != "BIGINT" && db.engine == "sqlite" {
				unread = append(unread, "'30/11/2025 10:00:00'", "'soon'", "''")
			} else if kind != "BIGINT" {
				unread = nil // of texts no time is read at all
			}
			for _, at := range unread {
				db.run("INSERT INTO log VALUES ('ann', 'a', " + at + "), ('ann', 'a', " + at + "), ('ann', 'a', 1764468000), ('ann', 'a', 1764468000)")
				listed := 0
				var err error
				for _, err = range rows.Duplicates(t.Context(), db.DB, log, time.Second) {
					if err == nil {
						listed++
					}
				}
				if want := "2 sends have no time that can be read in column at"; listed != 1 || err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %d are listed, and then %v", at, listed, err)
				}
				db.run("DELETE FROM log")
			}
			if kind != "BIGINT" && db.engine != "sqlite" {
				for _, err := range rows.Duplicates(t.Context(), db.DB, log, time.Second) {
					if !errors.As(err, new(*rows.TableError)) {
						t.Errorf("times in a %s: %v", kind, err)
					}
				}
			}
			db.run("DROP TABLE log")
		}
	})
}
