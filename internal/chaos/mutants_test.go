package chaos_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cronce/cronce/internal/testenv"
)

// A mutant is a store that breaks a rule.
type mutant struct {
	store, rule string
	patches     []testenv.Patch
}

const (
	unmended = "nothing is changed"
	anyones  = "a renewal renews whatever lease the job has"
	ownClock = "leases end by the client's clock"
	again    = "a claim does not look at its tick"
)

// clientAhead is Go for how far the client's clock is ahead of the machine's, in µs.
const clientAhead = `func() int64 {
		var real syscall.Timeval
		syscall.Gettimeofday(&real)
		return time.Now().UnixMicro() - real.Nano()/1000
	}()`

var flawed = []mutant{
	{"redis", unmended, nil},
	{"redis", anyones, []testenv.Patch{{
		File: "store/redisstore/renew.lua",
		Old:  "if not flags then return {'lost'} end\n",
		New: `if not flags then
	_, to = string.find(live, '\n%S+ ')
	if not to then return {'lost'} end
	flags = string.sub(live, to + 27, to + 29)
end
`,
	}}},
	{"redis", ownClock, []testenv.Patch{
		{File: "store/redisstore/script.go", Old: "d.offset.Load()", New: "time.Now().UnixMicro()"},
		{File: "store/redisstore/clock.lua", Old: "now = now + ARGV[1]", New: "now = ARGV[1] + 0"},
	}},
	{"redis", again, []testenv.Patch{
		{File: "store/redisstore/quick.lua", Old: "if taken then", New: "if false then"},
		{File: "store/redisstore/claim.lua", Old: "if n >= slots then", New: "if false then"},
	}},
	{"postgres", unmended, nil},
	{"postgres", anyones, []testenv.Patch{{
		File: "store/pgstore/migrations/004_lease.sql",
		Old:  "WHERE id = (c->>'run')::uuid AND (job = c->>'job') IS TRUE AND skip IS NULL AND outcome IS NULL AND expires > t AND revoked IS NULL",
		New:  "WHERE id = (SELECT live[1] FROM jobs WHERE job = c->>'job')",
	}}},
	{"postgres", ownClock, []testenv.Patch{
		{File: "store/pgstore/migrations/002_steps.sql", Old: "pg_catalog.clock_timestamp() $$", New: "pg_catalog.clock_timestamp() + pg_catalog.current_setting('cronce.ahead')::pg_catalog.interval $$"},
		{File: "store/pgstore/pgstore.go", Old: "	pool, err := pgxpool.NewWithConfig", New: `	t.config.ConnConfig.RuntimeParams["cronce.ahead"] = fmt.Sprint(` + clientAhead + `, " microseconds")
	pool, err := pgxpool.NewWithConfig`},
		{File: "store/pgstore/pgstore.go", Old: "import (\n", New: "import (\n\t\"fmt\"\n\t\"syscall\"\n"},
	}},
	{"postgres", again, []testenv.Patch{
		{File: "store/pgstore/quick.go", Old: "if pid != c.PgConn().PID() {", New: "if true {"}, // the functions alone
		{File: "store/pgstore/migrations/003_claim.sql", Old: "IF r.slot >= (c->'slots')::integer THEN", New: "IF false THEN"},
	}},
	{"mariadb", unmended, nil},
	{"mariadb", anyones, []testenv.Patch{
		{File: "store/mysqlstore/lease.go", Old: `WHERE r.id = ? FOR UPDATE", l.Run.ID)`, New: `WHERE r.job = ? AND r.state = 'running' FOR UPDATE", l.Run.Job)`},
	}},
	{"mariadb", ownClock, []testenv.Patch{
		{File: "store/mysqlstore/mysqlstore.go", Old: `clock: "SYSDATE(6)"`, New: `clock: "(SYSDATE(6) + INTERVAL " + strconv.FormatInt(` + clientAhead + `, 10) + " MICROSECOND)"`},
		{File: "store/mysqlstore/mysqlstore.go", Old: "import (\n", New: "import (\n\t\"strconv\"\n\t\"syscall\"\n"},
	}},
	{"mariadb", again, []testenv.Patch{
		{File: "store/mysqlstore/claim.go", Old: "case len(c.taken) >= c.Slots:", New: "case false:"},
		{File: "store/mysqlstore/glance.go", Old: "len(taken) < c.Slots", New: "len(taken) >= 0"},
	}},
}

// found is a line of TestChaos that says which rule was broken.
var found = regexp.MustCompile(`seed (\d+): ((twice|overlap|fence|lease): .*)`)

// A store that breaks a rule is found out; one that does not is not, although the clocks
// of its clients are far apart. Without -mutants it is only seen that there is such a
// store to be built.
func TestMutants(t *testing.T) {
	for _, m := range flawed {
		if *only != "" && *only != m.store {
			continue
		}
		t.Run(m.store+"/"+strings.ReplaceAll(m.rule, " ", "-"), func(t *testing.T) {
			if err := testenv.Apply(m.patches, map[string]string{}); err != nil {
				t.Fatal(err)
			}
			if *mutants {
				m.meet(t)
			}
		})
	}
}

func (m mutant) meet(t *testing.T) {
	program := filepath.Join(t.TempDir(), "chaos.test")
	if err := testenv.BuildTest(program, "./internal/chaos", m.patches...); err != nil {
		t.Fatal(err)
	}
	// What is done to it is chance: it may come through once.
	for try := range 3 {
		cmd := exec.Command(program, "-test.run", "TestChaos", "-store", m.store, "-apart", "18s", "-for", "40s", "-seed", fmt.Sprint(*seed+uint64(try)+1))
		out, err := cmd.CombinedOutput()
		said := found.FindAllStringSubmatch(string(out), -1)
		switch {
		case m.rule == unmended && err == nil:
			t.Logf("%s: %s: it passes", m.store, m.rule)
			return
		case m.rule == unmended:
			t.Fatalf("%s, with nothing changed: %v\n%s", m.store, err, out)
		case err != nil && len(said) > 0:
			count := map[string]int{}
			for _, s := range said {
				count[s[3]]++
			}
			t.Logf("%s: %s: found out by seed %s: %v, as\n%s", m.store, m.rule, said[0][1], count, said[0][2])
			return
		case err != nil:
			t.Fatalf("%s: %s: it failed otherwise: %v\n%s", m.store, m.rule, err, out)
		}
	}
	t.Errorf("%s: %s: and nobody has noticed", m.store, m.rule)
}
