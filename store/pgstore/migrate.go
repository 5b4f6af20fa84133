package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cronce/cronce"
)

// migrations are numbered from 1, without gaps. One that was released is never
// changed: the next one replaces its functions.
//
//go:embed migrations/*.sql
var migrations embed.FS

// format is the only one that this program knows. A migration that programs
// before it cannot live with raises it.
const format = 1

// lastMigration is the number of the last one that this program knows.
var lastMigration = func() int {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		panic(err)
	}
	return len(files)
}()

// Migrations returns the statements that make or bring up to date a store in
// that schema ("": DefaultSchema), for who does not let programs do it: those
// after the given migration, which the store has already; 0 is all. Run them
// as the schema's owner, in one transaction, as they are.
func Migrations(schema string, after int) (string, error) {
	if schema == "" {
		schema = DefaultSchema
	}
	if !schemaName.MatchString(schema) {
		return "", fmt.Errorf("schema %q: a-z, 0-9 and _ are allowed", schema)
	}
	steps, err := statements(schema)
	if err != nil {
		return "", err
	}
	if after < 0 || after > len(steps) {
		return "", fmt.Errorf("there is no migration %d: they are numbered from 1 to %d", after, len(steps))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "-- A role that only runs jobs needs no more than this:\n-- %s\n\nBEGIN;\n", strings.ReplaceAll(grants(schema, "ROLE"), "; ", ";\n-- "))
	if after == 0 {
		fmt.Fprintf(&b, "CREATE SCHEMA IF NOT EXISTS %s;\n", schema)
	}
	for _, s := range steps[after:] {
		fmt.Fprintf(&b, "\n%s", s)
	}
	b.WriteString("\nCOMMIT;\n")
	return b.String(), nil
}

// statements are the migrations for a schema, in order.
func statements(schema string) ([]string, error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var all []string
	for i, name := range files {
		text, err := migrations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, fmt.Sprintf("SET LOCAL search_path = pg_catalog, %s, pg_temp;\n%sUPDATE %s.store SET migration = %d;\n",
			schema, strings.ReplaceAll(string(text), "{schema}", schema), schema, i+1))
	}
	return all, nil
}

// grants are the rights of a role that runs jobs and makes no schema.
func grants(schema, role string) string {
	return fmt.Sprintf("GRANT USAGE ON SCHEMA %[1]s TO %[2]s; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %[1]s TO %[2]s;", schema, role)
}

func (d *driver) grants() string {
	return "as the owner of the schema: " + grants(d.schema, d.pool.Config().ConnConfig.User)
}

// made says which format and migration the store has; 0 and 0: there is none.
func (d *driver) made(ctx context.Context) (f, migration int, schema bool, err error) {
	var table bool
	err = d.pool.QueryRow(ctx, `SELECT n.oid IS NOT NULL, c.oid IS NOT NULL FROM (SELECT) one
		LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = $1
		LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = 'store'`, d.schema).Scan(&schema, &table)
	if err == nil && table {
		err = d.pool.QueryRow(ctx, "SELECT format, migration FROM "+d.schema+".store").Scan(&f, &migration)
		if errors.Is(err, pgx.ErrNoRows) {
			return 0, 0, true, &cronce.ConfigError{Store: d.place, What: "its table " + d.schema + ".store is empty",
				Cure: "put the schema back from a backup, or drop it, if nothing runs"}
		}
	}
	if err != nil {
		return 0, 0, false, d.explain(err)
	}
	return f, migration, schema, nil
}

// migrate brings the schema up to date. Of many that come at once one does it:
// the others wait for what it makes, fail, and find it done.
func (d *driver) migrate(ctx context.Context) error {
	steps, err := statements(d.schema)
	if err != nil {
		return err
	}
	var failed error
	for {
		f, done, schema, err := d.made(ctx)
		switch {
		case err != nil:
			return err
		case f != 0 && f != format:
			return &cronce.ConfigError{Store: d.place, What: fmt.Sprintf("it has format %d and this program knows %d", f, format),
				Cure: "use the newest cronce of the fleet"}
		case done >= len(steps): // a newer program's in the same format suit us as well
			return nil
		case failed != nil && !lostRace(failed):
			return d.cannotMigrate(failed, schema)
		}
		failed = d.run(ctx, steps[done:], schema, done)
		if failed != nil && ctx.Err() != nil {
			return d.explain(failed)
		}
	}
}

// run runs migrations in one transaction, sent as one message, if those before
// them are what the store has.
func (d *driver) run(ctx context.Context, steps []string, schema bool, done int) error {
	script := "BEGIN ISOLATION LEVEL READ COMMITTED;\n"
	if !schema {
		script += "CREATE SCHEMA " + d.schema + ";\n"
	}
	if done > 0 {
		script += fmt.Sprintf(`DO $$ BEGIN
			IF (SELECT migration FROM %s.store FOR UPDATE) <> %d THEN
				RAISE EXCEPTION 'others brought it up to date' USING ERRCODE = 'serialization_failure';
			END IF;
		END $$;
		`, d.schema, done)
	}
	script += strings.Join(steps, "") + "COMMIT"
	return d.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		_, err := c.Conn().PgConn().Exec(ctx, script).ReadAll()
		return err
	})
}

// lostRace reports whether a migration failed because another made the same
// thing at the same time.
func lostRace(err error) bool {
	e := asPgError(err)
	if e == nil {
		return false
	}
	switch e.Code {
	case "23505", "42P06", "42P07", "42710", "42723", "40P01", "40001":
		return true
	}
	return strings.Contains(e.Message, "concurrently")
}

func (d *driver) cannotMigrate(err error, schema bool) error {
	e := asPgError(err)
	if e == nil || e.Code != "42501" {
		return d.explain(err)
	}
	what := "there is no schema " + d.schema + " in it"
	if schema {
		what = "its schema " + d.schema + " is not up to date"
	}
	return &cronce.ConfigError{Store: d.place, What: what + ", and the role may not change that: " + e.Message,
		Cure: "as the database's owner, run what `cronce store migrate --print` prints; then, as the owner: " + grants(d.schema, d.pool.Config().ConnConfig.User)}
}
