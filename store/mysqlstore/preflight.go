package mysqlstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// settings are the server's own, by lower-case name. What the server does not
// know is not in it.
type settings map[string]string

// wanted are the settings that are looked at.
var wanted = []string{
	"version", "read_only", "super_read_only", "innodb_read_only", "innodb_flush_log_at_trx_commit", "innodb_doublewrite",
	"log_bin", "sync_binlog", "binlog_format", "max_allowed_packet", "wsrep_on", "wsrep_cluster_name", "server_uuid",
}

// preflight refuses a server that would break the promise.
func (d *driver) preflight(ctx context.Context) error {
	s, err := d.settings(ctx)
	if err != nil {
		return d.failed(err)
	}
	if what, cure := s.problem(); what != "" {
		return d.config(cure, "%s", what)
	}
	d.identity, d.galera = s.identity(), s.on("wsrep_on")
	return nil
}

func (d *driver) settings(ctx context.Context) (settings, error) {
	rows, err := d.db.QueryContext(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('"+strings.Join(wanted, "','")+"')")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	s := settings{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		s[strings.ToLower(name)] = value
	}
	return s, rows.Err()
}

func (s settings) on(name string) bool {
	v := s[name]
	return strings.EqualFold(v, "ON") || v == "1"
}

func (s settings) mariadb() bool { return strings.Contains(strings.ToLower(s["version"]), "mariadb") }

// problem is what breaks the promise, and its cure.
func (s settings) problem() (what, cure string) {
	if what := s.oldVersion(); what != "" {
		return what, "use MariaDB 10.6 or MySQL 8.0.1, or a later one"
	}
	for _, name := range []string{"read_only", "super_read_only", "innodb_read_only"} {
		if s.on(name) {
			return fmt.Sprintf("the server is read-only (%s=%s), as a replica is", name, s[name]), "name the primary in the URL"
		}
	}
	if v := s["innodb_flush_log_at_trx_commit"]; v != "1" {
		return flushProblem(v)
	}
	if v := s["innodb_doublewrite"]; strings.EqualFold(v, "OFF") || v == "0" {
		return "innodb_doublewrite=" + v + ": a crash can leave half a page, and no decision in it", "start the server with innodb_doublewrite=ON"
	}
	if s.on("log_bin") {
		if v := s["sync_binlog"]; v != "1" {
			return "log_bin=ON with sync_binlog=" + v + ": after a loss of power the server takes transactions back that are not in the binary log, and with them decisions", "SET GLOBAL sync_binlog=1, and in the server's configuration"
		}
		if v := s["binlog_format"]; strings.EqualFold(v, "STATEMENT") {
			return "binlog_format=STATEMENT: InnoDB refuses to write at READ COMMITTED", "SET GLOBAL binlog_format=ROW (or MIXED), and in the server's configuration"
		}
	}
	if n, err := strconv.Atoi(s["max_allowed_packet"]); err == nil && n < leastPacket {
		return fmt.Sprintf("max_allowed_packet=%d: the end of a run with its output can be longer", n), fmt.Sprintf("SET GLOBAL max_allowed_packet=%d or more", leastPacket)
	}
	return "", ""
}

// leastPacket has room for 64 KiB of output in which each byte is escaped.
const leastPacket = 256 << 10

// flushProblem is also looked for with every claim, as it can be set at any time.
func flushProblem(v string) (what, cure string) {
	return "innodb_flush_log_at_trx_commit=" + v + ": a crash loses the decisions of the last second", "SET GLOBAL innodb_flush_log_at_trx_commit=1, and in the server's configuration"
}

// oldVersion says what is wrong with the server's version.
func (s settings) oldVersion() string {
	v := s["version"]
	if strings.Contains(v, "TiDB") {
		return "version " + v + " is TiDB, which locks otherwise than MySQL"
	}
	least := [3]int{8, 0, 1}
	if s.mariadb() {
		least = [3]int{10, 6, 0}
	}
	var have [3]int
	fmt.Sscanf(v, "%d.%d.%d", &have[0], &have[1], &have[2])
	for i := range have {
		if have[i] != least[i] {
			if have[i] < least[i] {
				return "version " + v + " is too old"
			}
			break
		}
	}
	return ""
}

// identity is SQL for a text that is another one on a server which may lack
// decisions that this one made: see docs/decisions/082.
func (s settings) identity() string {
	switch {
	case s.on("wsrep_on"): // all nodes have what one has committed
		return "CONCAT('galera ', @@wsrep_cluster_name)"
	case s["server_uuid"] != "":
		return "CONCAT('mysql ', @@server_uuid)"
	}
	return "CONCAT_WS(' ', 'mariadb', @@global.server_id, @@hostname, @@port, @@datadir)"
}
