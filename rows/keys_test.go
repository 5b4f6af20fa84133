package rows_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronce/cronce/rows"
)

// keyTypes are columns of keys that are not as easy as they look, and values of them, in SQL.
var keyTypes = map[string][]struct{ name, column, values string }{
	"mysql": {
		{"beyond int64", "BIGINT UNSIGNED PRIMARY KEY", "18446744073709551615; 18446744073709551614; 9223372036854775808; 1"},
		{"decimals beyond doubles", "DECIMAL(30,1) PRIMARY KEY", "12345678901234567890.1; 12345678901234567890.2; 1.0"},
		{"bytes", "VARBINARY(16) PRIMARY KEY", "''; 'a'; 'a '; 'A'; x'00'; x'0000'; x'ff'"},
		{"spaces count", "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin PRIMARY KEY", "''; 'a'; 'a '; 'A'"},
		{"an enumeration of digits", "ENUM('1', '2', '0') PRIMARY KEY", "'1'; '2'; '0'"},
		{"a uuid", "UUID PRIMARY KEY", "'12345678-1234-1234-1234-000000000001'; '12345678-1234-1234-1234-000000000002'"},
		{"a time", "DATETIME(6) PRIMARY KEY", "'2026-01-01 00:00:00.000001'; '2026-01-01 00:00:00.000002'"},
	},
	"pgx": {
		{"bytes", "bytea PRIMARY KEY", `''; '\x00'; '\xff00'`},
		{"a number", "numeric PRIMARY KEY", "12345678901234567890.1; 12345678901234567890.2; 1.10"},
		{"no number", "float8 PRIMARY KEY", "'NaN'; 'Infinity'; 0.1"},
		{"no time", "timestamptz PRIMARY KEY", "'infinity'; '-infinity'; '2026-01-01 00:00:00.000001+02'"},
		{"a text", "text PRIMARY KEY", "''; 'a'; 'a '; 'A'"},
		{"a range", "int4range PRIMARY KEY", "'[1,2)'; '[3,5)'"},
	},
	"sqlite": {
		{"a date", "DATE NOT NULL PRIMARY KEY", "'2026-01-01'; '2026-01-02'"},
		{"a time", "DATETIME NOT NULL PRIMARY KEY", "'2026-01-01 00:00:00'; '2026-01-01T00:00:00Z'; '2026-01-01 00:00:00.5'; 'soon'; 1764500000"},
		{"bytes", "BLOB NOT NULL PRIMARY KEY", "x''; x'35'; '5'; 5; 5.5"},
		{"a text with bytes", "TEXT NOT NULL PRIMARY KEY", "''; 'a'; 'A'; 'a '; x'61'; CAST(x'ff41' AS TEXT); CAST(x'410042' AS TEXT)"},
		{"a primary key that may be NULL", "TEXT PRIMARY KEY", "'a'; 'b'"},
		{"one that is computed", "TEXT AS ('k' || filler) STORED NOT NULL UNIQUE", ""},
	},
}

// TestKeys_Types defends that each row is found by its key again: one that is not stays claimed, and is never done.
func TestKeys_Types(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, db *database) {
		for i, side := range []string{"", "claims"} {
			for j, c := range keyTypes[db.engine] {
				t.Run(c.name+side, func(t *testing.T) {
					name := fmt.Sprintf("work%d_%d", i, j) // drivers remember what another one was
					db := &database{DB: db.DB, t: t, engine: db.engine, url: db.url, source: db.source}
					db.run("CREATE TABLE " + name + " (filler INTEGER, status VARCHAR(10) NOT NULL DEFAULT 'pending', id " + c.column + ")")
					n := 2
					if c.values == "" {
						db.run("INSERT INTO " + name + " (filler) VALUES (1), (2)")
					} else {
						n = strings.Count(c.values, ";") + 1
						db.run("INSERT INTO " + name + " (id) VALUES (" + strings.ReplaceAll(c.values, "; ", "), (") + ")")
					}
					table := rows.Table{Name: name, Key: []string{"id"}, State: "status"}
					if side != "" {
						table.Side = name + side
					}
					db.migrate(table)
					var mu sync.Mutex
					calls := 0
					result, err := db.open(table, rows.Options{Workers: 2, Timeout: time.Second, Lease: 6 * time.Second}).Drain(t.Context(), func(context.Context, rows.Row) error {
						mu.Lock()
						defer mu.Unlock()
						calls++
						return nil
					})
					if err != nil || result.Sent != int64(n) || calls != n {
						t.Errorf("%d calls for %d rows: %+v, %v", calls, n, result, err)
					}
					if got := db.number("SELECT COUNT(*) FROM " + name + " WHERE status = 'sent'"); got != int64(n) {
						t.Errorf("%d rows of %d are sent", got, n)
					}
				})
			}
		}
	})
}

// TestTables defends that these are tables like any other.
func TestTables(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ engine, schema string }{
		"strict":           {"sqlite", "CREATE TABLE work (id INTEGER PRIMARY KEY, status TEXT NOT NULL DEFAULT 'pending') STRICT"},
		"a domain":         {"pgx", "CREATE DOMAIN progress AS varchar(10) NOT NULL CHECK (VALUE <> '');\nCREATE TABLE work (id INTEGER PRIMARY KEY, status progress DEFAULT 'pending')"},
		"unsigned":         {"mysql", "CREATE TABLE work (id INTEGER PRIMARY KEY, status TINYINT UNSIGNED NOT NULL DEFAULT 200)"},
		"system-versioned": {"mysql", "CREATE TABLE work (id INTEGER PRIMARY KEY, status VARCHAR(10) NOT NULL DEFAULT 'pending') WITH SYSTEM VERSIONING"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := map[string]func(testing.TB) *database{"mysql": mariadb, "pgx": postgres, "sqlite": sqlite}[c.engine](t)
			table := rows.Table{Name: "work", Key: []string{"id"}, State: "status"}
			switch name {
			case "unsigned":
				table.States = rows.States{Pending: "200", Sending: "201", Sent: "202", Failed: "203", Dead: "204", Unknown: "255"}
			case "system-versioned": // which may not be altered as it is
				table.Side = "claims"
			}
			db.run(c.schema + ";\nINSERT INTO work (id) VALUES (1), (2)")
			db.migrate(table)
			result, err := db.open(table, rows.Options{}).Drain(t.Context(), func(context.Context, rows.Row) error { return nil })
			if err != nil || result.Sent != 2 {
				t.Errorf("%+v, %v", result, err)
			}
		})
	}
}
