package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// format is the version of the tables that this package reads and writes.
const format = 1

// migrations are the steps from each format to the next. A step may be made
// twice, or by two at a time: DDL is in no transaction.
var migrations = [format][]string{
	{
		`CREATE TABLE IF NOT EXISTS cronce_store (
  id      TINYINT NOT NULL PRIMARY KEY,  -- 1: there is one row
  format  INT NOT NULL,                  -- of these tables
  server  VARCHAR(700) NOT NULL,         -- whose decisions these are
  known   TINYINT NOT NULL,              -- 1: what is not on record was not decided
  seen    DATETIME(6) NULL               -- when it was first seen not to be known
) ` + table,
		`CREATE TABLE IF NOT EXISTS cronce_jobs (
  name          VARCHAR(200) NOT NULL PRIMARY KEY,
  schedule      TEXT NULL,               -- the definition, and since when
  zone          TEXT NULL,
  policies      TEXT NULL,
  since         DATETIME(6) NULL,
  paused        TEXT NULL,               -- by whom, JSON
  resumed       DATETIME(6) NULL,
  fence         BIGINT NOT NULL DEFAULT 0, -- the highest given
  highest_tick  DATETIME NULL,           -- of those decided
  pruned_tick   DATETIME NULL,           -- the highest forgotten
  last_run      CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL, -- run or skip decided last
  holder_run    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL, -- who took the lease last; it may have ended
  beside        TEXT NULL,               -- runs side by side that may live, ids parted by spaces
  waiting       TEXT NULL,               -- the place to wait, JSON
  succeeded     DATETIME(6) NULL,        -- tick, or start, of the last success
  succeeded_at  DATETIME(6) NULL         -- and its end
) ` + table,
		`CREATE TABLE IF NOT EXISTS cronce_runs (
  id            CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  job           VARCHAR(200) NOT NULL,
  tick          DATETIME NULL,           -- UTC, as all times; NULL: by hand
  attempt       INT NOT NULL,
  slot          INT NOT NULL,
  fence         BIGINT NOT NULL,
  state         VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- running, skipped, or the outcome
  skip          VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin NULL,     -- why
  held_by       CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,        -- for a skip: the run in its way
  holder        TEXT NOT NULL,           -- JSON
  started       DATETIME(6) NOT NULL,    -- decided
  ended         DATETIME(6) NULL,
  expires       DATETIME(6) NULL,        -- the lease
  ttl           BIGINT NOT NULL,         -- of the lease, in microseconds
  orphaned      TINYINT NOT NULL DEFAULT 0,
  stop          TEXT NULL,               -- who asked it to, JSON
  revoked       TEXT NULL,
  exit_code     INT NOT NULL DEFAULT 0,
  exit_signal   VARCHAR(64) NULL,
  message       TEXT NULL,
  output        MEDIUMBLOB NULL,         -- the last part
  output_bytes  BIGINT NOT NULL DEFAULT 0,
  tries         INT NOT NULL DEFAULT 0,
  UNIQUE KEY tick (job, tick, attempt, slot),
  KEY started (started)
) ` + table,
		`CREATE TABLE IF NOT EXISTS cronce_requests (
  id       BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  job      VARCHAR(200) NOT NULL,
  at       DATETIME(6) NOT NULL,
  request  TEXT NOT NULL,                -- JSON
  KEY job (job, at)
) ` + table,
		setFormat(1),
	},
}

// table ends a definition: names are told apart by every byte.
const table = "ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

// setFormat ends the step to that format.
func setFormat(n int) string {
	return fmt.Sprintf("INSERT INTO cronce_store (id, format, server, known) VALUES (1, %[1]d, '', 0) ON DUPLICATE KEY UPDATE format = GREATEST(format, %[1]d)", n)
}

// tables are those of the newest format.
var tables = []string{"cronce_jobs", "cronce_requests", "cronce_runs", "cronce_store"}

// Schema is the SQL that Open runs in an empty database, for who makes the
// tables by hand. It may be run again.
func Schema() string {
	var b strings.Builder
	for _, steps := range migrations {
		for _, s := range steps {
			b.WriteString(s + ";\n\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// migrate brings the tables to this format, whoever else does so at the same
// time.
func (d *driver) migrate(ctx context.Context) error {
	have := 0
	err := d.db.QueryRowContext(ctx, "SELECT format FROM cronce_store WHERE id = 1").Scan(&have)
	switch {
	case err == nil:
	case number(err) == errNoSuchTable, errors.Is(err, sql.ErrNoRows): // the row is written last
	default:
		return d.failed(err)
	}
	if err := d.readable(have); err != nil {
		return err
	}
	for _, steps := range migrations[have:] {
		for _, s := range steps {
			if _, err := d.db.ExecContext(ctx, s); err != nil {
				return d.failed(fmt.Errorf("making the tables: %w", err))
			}
		}
	}
	return d.checkEngines(ctx)
}

// readable refuses tables of a format that this package does not know.
func (d *driver) readable(have int) error {
	if have < 0 || have > format {
		return d.config("use the cronce that made them, or a newer one", "its tables are of format %d; this cronce knows 1 to %d", have, format)
	}
	return nil
}

// checkEngines refuses tables that are not there, or know no transactions,
// whatever was asked for when they were made.
func (d *driver) checkEngines(ctx context.Context) error {
	rows, err := d.db.QueryContext(ctx, "SELECT LOWER(table_name), engine FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE 'cronce\\_%'")
	if err != nil {
		return d.failed(err)
	}
	defer rows.Close()
	engines := map[string]string{}
	for rows.Next() {
		var name string
		var engine sql.NullString // NULL: it cannot be read
		if err := rows.Scan(&name, &engine); err != nil {
			return d.failed(err)
		}
		engines[name] = engine.String
	}
	if err := rows.Err(); err != nil {
		return d.failed(err)
	}
	for _, name := range tables {
		engine, ok := engines[name]
		if !ok {
			return d.config("put it back from a backup of the whole store; or drop the other tables of cronce too, for a new store", "somebody dropped the table %s, and decisions with it", name)
		}
		if engine != "InnoDB" {
			return d.config("while no job runs: ALTER TABLE "+name+" ENGINE=InnoDB", "the table %s has the engine %q, which keeps no promise of a transaction", name, engine)
		}
	}
	return nil
}
