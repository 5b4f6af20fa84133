// Package rows works off a table row by row, each row by one process: rows that wait
// in a state column ("pending") are claimed in batches, handed to a [Handler] one by one, and
// marked with what came of them.
//
// The words. A claim moves rows from pending to sending, in one short transaction, under a
// token of its own and a lease that ends by the database's clock. A row is started when that is on
// record (started_at), before its handler is called. It ends as sent, failed (the handler
// says that it never will do), dead (it failed too often), pending again (it failed, to be tried
// later) or unknown (nobody knows whether the handler did its work).
//
//	            claim             start            handler returns
//	pending ------------> sending -------> sending ----------------> sent, failed, dead, unknown
//	   ^                     |                |        error, to be tried again
//	   |---- never started --|                |-----------------------> pending
//	   |     (worker died, or stops)          |
//	   |                                      | worker died
//	   '------------- if idempotent ----------'----------------> unknown
//
// The promise. Each row's handler is called at most once for each attempt, by one process,
// whatever the engine makes of SKIP LOCKED, of transactions, or of a reply that is
// lost: every change of a row repeats, in the same statement, what must hold of it, and its effect is
// read back where it is in doubt. When workers die, the rows that they had started
// are unknown, for a person, at most as many as there were workers; all others go on.
//
// What a claim needs to know besides the state (token, lease, start, attempts and the like: the facts)
// is kept in columns of the table, the user's own or added ones, or in a side
// table where the table may not change: see [Table] and [Drainer.Migration].
//
// The package speaks MariaDB and MySQL, Postgres and SQLite through database/sql, and imports no driver. It
// is tested with go-sql-driver/mysql, pgx's stdlib and modernc.org/sqlite.
package rows
