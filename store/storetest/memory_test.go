package storetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cronce/cronce"
)

// server is a store in memory: the model of one whose leases end by TTL on the
// server's clock. It keeps every promise, except the one that its flaw is
// named for.
type server struct {
	flaw       string
	real       bool // its clock is the host's and cannot be moved
	quarantine time.Duration

	mu    sync.Mutex
	clock time.Time // moves by a microsecond with each operation, and by advance
	jobs  map[string]*job
	known bool
	seen  time.Time // when it first saw that it is not known
}

// job is what the server has of a job.
type job struct {
	cronce.JobState
	runs     []*run
	requests []cronce.Request
	success  time.Time
	pruned   time.Time // the watermark
	place    *place
}

// run is a run with its lease.
type run struct {
	cronce.Run
	granted       time.Time
	ttl           time.Duration
	orphaned      bool
	stop, revoked *cronce.Request
}

func (r *run) expires() time.Time { return r.granted.Add(r.ttl) }

// place is a job's one place to wait.
type place struct {
	run     cronce.Run
	granted time.Time // when its claim was last made
	expires time.Time
}

func newServer(flaw string) *server {
	return &server{flaw: flaw, clock: time.Now().UTC().Truncate(time.Microsecond), jobs: map[string]*job{}, quarantine: cronce.MaxTTL}
}

// now is the server's clock.
func (s *server) now() time.Time { return s.clock }

// expired tells whether a lease or place that ends then has ended.
func (s *server) expired(end time.Time) bool {
	if s.flaw == "expiry by the host's clock" {
		return !time.Now().Before(end)
	}
	return !s.now().Before(end)
}

// tick lets the clock go on, so that no two operations are at one time.
func (s *server) tick() {
	s.clock = s.clock.Add(time.Microsecond)
	if now := time.Now().UTC().Truncate(time.Microsecond); s.real && now.After(s.clock) {
		s.clock = now
	}
}

func (s *server) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = s.clock.Add(d)
}

// forget is a server that comes back without its data.
func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs, s.known, s.seen = map[string]*job{}, s.flaw == "no incarnation", time.Time{}
}

// restart is a server that comes back with its data.
func (s *server) restart() {
	if s.flaw == "a restart loses decisions" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.jobs = map[string]*job{}
	}
}

// client is a driver, the connection of one process to the server.
type client struct {
	server *server

	mu        sync.Mutex
	cut, drop bool
}

var _ cronce.Driver = (*client)(nil)

var errNetwork = errors.New("no answer from the server")

// do is one atomic step of the server, as far as the network lets it through.
func do[T any](ctx context.Context, c *client, f func(s *server) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	c.mu.Lock()
	cut, drop := c.cut, c.drop && !c.cut
	c.drop = c.drop && !drop
	c.mu.Unlock()
	if cut {
		return none, errNetwork
	}
	c.server.mu.Lock()
	c.server.tick()
	answer, err := f(c.server)
	c.server.mu.Unlock()
	if drop {
		return none, errNetwork
	}
	return answer, err
}

func (c *client) Claim(ctx context.Context, claim cronce.Claim) (cronce.Lease, error) {
	if c.server.flaw == "a claim of two steps" {
		if _, err := do(ctx, c, func(s *server) (any, error) { return nil, s.decided(s.jobs[claim.Job], claim) }); err != nil {
			return cronce.Lease{}, err
		}
		time.Sleep(50 * time.Microsecond)
	}
	return do(ctx, c, func(s *server) (cronce.Lease, error) { return s.claim(claim) })
}

func (c *client) Renew(ctx context.Context, l cronce.Lease) (cronce.Lease, error) {
	return do(ctx, c, func(s *server) (cronce.Lease, error) {
		r := s.leased(l)
		if s.flaw == "renewal without the run id" && s.jobs[l.Run.Job] != nil {
			for _, other := range s.jobs[l.Run.Job].runs {
				if other.Live() && !s.expired(other.expires()) {
					r = other
				}
			}
		}
		if r == nil {
			return l, cronce.ErrLost
		}
		if r.revoked != nil {
			return l, &cronce.RevokedError{Request: *r.revoked}
		}
		r.granted, r.orphaned = s.now(), r.orphaned || l.Orphaned
		if s.flaw != "who takes over is not recorded" {
			r.Holder = l.Run.Holder
		}
		if s.flaw == "each renewal is for the default TTL" {
			r.ttl = cronce.DefaultTTL
		}
		l.Granted, l.TTL, l.Stop = r.granted, r.ttl, r.stop
		return l, nil
	})
}

// leased is the run of a lease that has not ended.
func (s *server) leased(l cronce.Lease) *run {
	j := s.jobs[l.Run.Job]
	if j == nil {
		return nil
	}
	r := j.run(l.Run.ID)
	if r == nil || !r.Live() || s.expired(r.expires()) && s.flaw != "an expired lease that nobody took goes on" {
		return nil
	}
	return r
}

func (c *client) Finish(ctx context.Context, l cronce.Lease, result cronce.Result) error {
	_, err := do(ctx, c, func(s *server) (any, error) {
		if r := s.leased(l); r != nil {
			s.end(r, result)
			return nil, nil
		}
		j := s.jobs[l.Run.Job]
		if j == nil {
			return nil, cronce.ErrLost
		}
		r := j.run(l.Run.ID)
		switch {
		case r == nil:
			return nil, cronce.ErrLost
		case s.flaw == "a late finisher is believed":
			s.end(r, result)
		case r.Live() || r.Outcome == cronce.Lost:
			return nil, cronce.ErrLost
		case s.flaw == "the last finish stands":
			s.end(r, result)
		}
		return nil, nil
	})
	return err
}

// end records a result.
func (s *server) end(r *run, result cronce.Result) {
	if s.flaw == "the beginning of the output is kept" {
		result.Output = result.Output[:min(len(result.Output), 64<<10)]
	}
	result.Output = slices.Clone(result.Output[max(0, len(result.Output)-64<<10):])
	result.Message = result.Message[:min(len(result.Message), 1<<10)]
	r.Result, r.End = result, s.now()
	if r.Outcome == cronce.Succeeded {
		j := s.jobs[r.Job]
		if j.success = r.Tick; r.Tick.IsZero() {
			j.success = r.Start
		}
	}
}

func (c *client) Request(ctx context.Context, r cronce.Request) error {
	_, err := do(ctx, c, func(s *server) (any, error) {
		r.At = s.now()
		j := s.job(r.Job, r.Kind == cronce.Define || r.Kind == cronce.Pause)
		if j != nil && s.request(j, &r) {
			j.requests = append(j.requests, r)
		}
		return nil, nil
	})
	return err
}

// request carries out a request, and tells whether it changed anything.
func (s *server) request(j *job, r *cronce.Request) bool {
	switch r.Kind {
	case cronce.Define:
		if j.Definition == r.Definition && !j.Since.IsZero() && s.flaw != "the same definition is another" {
			return false
		}
		j.Definition, j.Since = r.Definition, r.At
	case cronce.Pause:
		if j.Paused != nil && s.flaw != "the last pause stands" {
			return false
		}
		j.Paused = r
	case cronce.Resume:
		if j.Paused == nil {
			return false
		}
		j.Paused, j.Resumed = nil, r.At
	case cronce.ResetWatermark:
		if !j.pruned.After(r.At) {
			return false
		}
		j.pruned = r.At
	case cronce.Stop, cronce.Revoke:
		for _, l := range j.runs {
			switch {
			case (!l.Live() || s.expired(l.expires())) && s.flaw != "who is not there is asked to stop":
				continue
			case r.Kind == cronce.Stop:
				l.stop = r
			case s.flaw == "a revoked lease ends at once":
				l.granted = time.Time{}
			default:
				l.revoked = r
			}
			r.Runs = append(r.Runs, l.ID)
		}
		return len(r.Runs) > 0
	}
	return true
}

func (c *client) Requests(ctx context.Context, name string, limit int) ([]cronce.Request, error) {
	return do(ctx, c, func(s *server) ([]cronce.Request, error) {
		j := s.jobs[name]
		if j == nil {
			return nil, nil
		}
		if limit > 0 {
			return slices.Clone(j.requests[max(0, len(j.requests)-limit):]), nil
		}
		return slices.Clone(j.requests), nil
	})
}

func (c *client) Now(ctx context.Context) (time.Time, error) {
	return do(ctx, c, func(s *server) (time.Time, error) { return s.now(), nil })
}

func (c *client) Jobs(ctx context.Context, name string) ([]cronce.JobState, error) {
	return do(ctx, c, func(s *server) (states []cronce.JobState, err error) {
		for _, n := range slices.Sorted(maps.Keys(s.jobs)) {
			j := s.jobs[n]
			if name != "" && n != name {
				continue
			}
			state := j.JobState
			for _, r := range j.runs {
				last := s.read(r)
				state.Last = &last
				if r.Live() {
					state.Live = append(state.Live, last)
				}
			}
			states = append(states, state)
		}
		return states, nil
	})
}

// read is a run as it is read.
func (s *server) read(r *run) cronce.Run {
	found := r.Run
	if r.Live() && s.flaw != "reads know of no leases" {
		found.Expires = r.expires()
	}
	return found
}

func (c *client) Runs(ctx context.Context, q cronce.RunQuery) ([]cronce.Run, error) {
	return do(ctx, c, func(s *server) (runs []cronce.Run, err error) {
		for _, j := range s.jobs {
			for _, r := range j.runs {
				if (q.Job == "" || q.Job == j.Job) && (q.ID == "" || q.ID == r.ID) && !r.Start.Before(q.Since) {
					found := s.read(r)
					if q.ID == "" && s.flaw != "lists carry output" {
						found.Output = nil
					}
					runs = append(runs, found)
				}
			}
		}
		slices.SortStableFunc(runs, func(a, b cronce.Run) int { return a.Start.Compare(b.Start) })
		if q.Limit > 0 {
			runs = runs[max(0, len(runs)-q.Limit):]
		}
		return runs, nil
	})
}

func (c *client) Prune(ctx context.Context, name string, before time.Time) (int, error) {
	return do(ctx, c, func(s *server) (n int, err error) {
		for _, j := range s.jobs {
			if name != "" && j.Job != name {
				continue
			}
			j.runs = slices.DeleteFunc(j.runs, func(r *run) bool {
				if !r.Start.Before(before) || r.Live() && s.flaw != "pruning takes live runs" {
					return false
				}
				n++
				if s.flaw == "pruning loses the last success" {
					j.success = time.Time{}
				}
				if r.Tick.After(j.pruned) && s.flaw != "pruning re-opens ticks" {
					j.pruned = r.Tick
				}
				return true
			})
		}
		return n, nil
	})
}

func (c *client) Init(ctx context.Context) error {
	_, err := do(ctx, c, func(s *server) (any, error) {
		s.known = true
		return nil, nil
	})
	return err
}

func (c *client) Close() error {
	if c.server.flaw == "closing releases" {
		c.server.forget()
	}
	return nil
}

func (c *client) fault(cut, drop bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut, c.drop = cut, drop
}

// job is the job of that name, made if it is not there and may be.
func (s *server) job(name string, create bool) *job {
	if s.flaw == "names are folded" {
		name = strings.ToLower(name)
	}
	j := s.jobs[name]
	if j == nil && create {
		j = &job{JobState: cronce.JobState{Job: name}}
		s.jobs[name] = j
	}
	return j
}

func (j *job) run(id string) *run {
	for _, r := range j.runs {
		if r.ID == id {
			return r
		}
	}
	return nil
}
