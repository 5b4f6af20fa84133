package pgstore

import (
	"errors"
	"sync"

	"github.com/cronce/cronce"
)

// memory is the highest fence of each job that this process has seen. A server
// whose data went back to an earlier time cannot tell by itself.
type memory struct {
	mu     sync.Mutex
	fences map[string]int64
}

// of is what was seen of a job; 0 is nothing.
func (m *memory) of(job string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fences[job]
}

// learn remembers what the answer to a claim tells. One that tells that the store
// is not known ends all of it: that what was seen may be lost is on record.
func (m *memory) learn(job string, l cronce.Lease, answer error) {
	fence := l.Run.Fence
	var taken *cronce.TakenError
	var skipped *cronce.SkippedError
	var held *cronce.HeldError
	unknown := false
	switch {
	case errors.As(answer, &taken):
		fence = taken.Run.Fence
	case errors.As(answer, &skipped):
		unknown = skipped.Run.Skip == cronce.SkipStoreRestarted
		if skipped.Holder != nil {
			fence = skipped.Holder.Fence
		}
	case errors.As(answer, &held):
		unknown, fence = held.Holder.ID == "", held.Holder.Fence
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if unknown || m.fences == nil {
		m.fences = map[string]int64{}
	}
	if fence > m.fences[job] {
		m.fences[job] = fence
	}
}
