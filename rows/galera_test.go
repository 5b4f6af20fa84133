package rows_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cronce/cronce/internal/testenv"
	"github.com/cronce/cronce/rows"
)

// TestGalera defends that claims at two nodes of a cluster, which do not see each other's locks, give no row to both: one of
// two COMMITs fails, and is no claim.
func TestGalera(t *testing.T) {
	t.Parallel()
	const n = 4000
	first := testenv.StartGalera(t, nil)
	second := testenv.StartGalera(t, first)
	nodes := []*database{connect(t, "mysql", first.URL()), connect(t, "mysql", second.URL())}
	nodes[0].fill(notices, n)
	counted := newCalls(n)
	var sent atomic.Int64
	var wg sync.WaitGroup
	var drainers []*rows.Drainer
	for i := range 8 {
		// What one node was told comes to the other a moment later.
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			d, err := rows.Open(t.Context(), nodes[i%2].DB, notices, rows.Options{Workers: 50})
			if err == nil {
				drainers = append(drainers, d)
				break
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
	for _, d := range drainers {
		wg.Go(func() {
			result, err := d.Drain(t.Context(), counted.handle)
			if err != nil || result.Lost+result.Unrecorded+result.Unknown != 0 {
				t.Errorf("%+v, %v", result, err)
			}
			sent.Add(result.Sent)
		})
	}
	wg.Wait()
	counted.once(t)
	if sent.Load() != n {
		t.Errorf("%d rows are said to be sent, of %d", sent.Load(), n)
	}
	for _, node := range []*testenv.GaleraNode{first, second} {
		t.Logf("%s: %s of its transactions were refused", node.Addr(), node.SQL("SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'WSREP_LOCAL_CERT_FAILURES'"))
	}
}
