package localstore

import (
	"sync"
	"testing"
	"testing/synctest"
)

// Claims at once share their searches through /proc, and none is answered by a
// search that began before it asked.
func TestLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l looks
		searches := 0
		goOn := make(chan struct{})
		search := func() []openFile {
			searches++
			n := searches
			<-goOn
			return []openFile{{pid: n}}
		}
		ask := func(want int) {
			if found := l.flocked(search); len(found) != 1 || found[0].pid != want {
				t.Errorf("answered by search %+v, want %d", found, want)
			}
		}
		var asking sync.WaitGroup
		for round := range 3 {
			first := 2*round + 1
			asking.Go(func() { ask(first) })
			synctest.Wait()
			for range 16 {
				asking.Go(func() { ask(first + 1) })
			}
			synctest.Wait()
			goOn <- struct{}{}
			synctest.Wait()
			goOn <- struct{}{}
			asking.Wait()
		}
		if searches != 6 {
			t.Errorf("%d searches, want 6", searches)
		}
	})
}
