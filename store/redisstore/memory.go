package redisstore

import "sync"

// memory is the highest fence of each job that this process has seen. A server
// that was given its data of earlier cannot tell by itself.
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

// keep remembers a job's fence.
func (m *memory) keep(job string, fence int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fences == nil {
		m.fences = map[string]int64{}
	}
	if fence > m.fences[job] {
		m.fences[job] = fence
	}
}

// forget ends all of it, once it is on record that decisions may be lacking.
func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.fences)
}
