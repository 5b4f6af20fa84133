package handover

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/cronce/cronce"
)

// The thin program knows the local store only. For any other, the full program opens
// the store and lends it over a socket: each call of the thin program's driver is a
// line there, and its answer a line back.

// StoreFD is the descriptor of the socket that a guard of a shared store has in the place
// of a lock. Others are told its number by [StoreVariable].
const (
	StoreFD       = LockFD
	StoreVariable = "CRONCE_STORE_FD"
)

// call is a call of a driver.
type call struct {
	ID       int
	Op       string
	Patience time.Duration // 0: as long as it takes
	Claim    cronce.Claim
	Lease    cronce.Lease
	Result   cronce.Result
	Output   []byte // of the result, which leaves it out
	Request  cronce.Request
	Job      string
	Limit    int
	Query    cronce.RunQuery
}

// reply is the answer to a call.
type reply struct {
	ID       int
	Err      *failure `json:",omitempty"`
	Lease    cronce.Lease
	Time     time.Time
	Jobs     []cronce.JobState
	Runs     []cronce.Run
	Outputs  [][]byte // of the runs
	Requests []cronce.Request
}

// failure is an error on its way.
type failure struct {
	Kind string
	Text string
	Data json.RawMessage `json:",omitempty"`
}

// kinds are the errors that callers tell apart, by their names on the way.
var kinds = []struct {
	name string
	pick func(error) any // the error of that kind, or nil
	make func(json.RawMessage) error
}{
	kind[cronce.TakenError]("taken"), kind[cronce.SkippedError]("skipped"), kind[cronce.HeldError]("held"),
	kind[cronce.ConflictError]("conflict"), kind[cronce.SkewError]("skew"), kind[cronce.ConfigError]("config"),
	kind[cronce.RevokedError]("revoked"),
}

// kind describes an error *T.
func kind[T any, P interface {
	*T
	error
}](name string) struct {
	name string
	pick func(error) any
	make func(json.RawMessage) error
} {
	return struct {
		name string
		pick func(error) any
		make func(json.RawMessage) error
	}{name, func(err error) any {
		var e P
		if errors.As(err, &e) {
			return e
		}
		return nil
	}, func(data json.RawMessage) error {
		e := P(new(T))
		if err := json.Unmarshal(data, e); err != nil {
			return err
		}
		return e
	}}
}

func pack(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error()}
	for _, k := range kinds {
		if e := k.pick(err); e != nil {
			f.Kind = k.name
			f.Data, _ = json.Marshal(e)
			return f
		}
	}
	var away *cronce.UnavailableError
	switch {
	case errors.Is(err, cronce.ErrLost):
		f.Kind = "lost"
	case errors.As(err, &away):
		f.Kind, f.Text = "away", away.Err.Error()
		f.Data, _ = json.Marshal(away.Store)
	}
	return f
}

func (f *failure) unpack() error {
	if f == nil {
		return nil
	}
	for _, k := range kinds {
		if k.name == f.Kind {
			return k.make(f.Data)
		}
	}
	switch f.Kind {
	case "lost":
		return cronce.ErrLost
	case "away":
		var store string
		json.Unmarshal(f.Data, &store)
		return &cronce.UnavailableError{Store: store, Err: errors.New(f.Text)}
	}
	return errors.New(f.Text)
}

// Listener is told what a borrower does with its leases.
type Listener interface {
	// Leased tells of a lease that was given or renewed.
	Leased(l cronce.Lease)
	// Ending tells that the work has ended, with that result, which is about to be put on
	// record; Ended that it is.
	Ending(l cronce.Lease, r cronce.Result)
	Ended(l cronce.Lease)
}

// Lend answers a borrower's calls from the store until the borrower has gone.
func Lend(ctx context.Context, conn io.ReadWriter, store *cronce.Store, heard Listener) {
	ctx, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	var writing sync.Mutex
	out := json.NewEncoder(conn)
	for in := json.NewDecoder(conn); ; {
		var c call
		if in.Decode(&c) != nil {
			return
		}
		calls.Go(func() {
			ctx := ctx
			if c.Patience > 0 {
				var done func()
				ctx, done = context.WithTimeout(ctx, c.Patience)
				defer done()
			}
			if c.Op == "finish" {
				c.Result.Output = c.Output
				heard.Ending(c.Lease, c.Result)
			}
			r, err := c.do(ctx, store)
			switch {
			case err != nil:
			case c.Op == "claim" || c.Op == "renew":
				heard.Leased(r.Lease)
			case c.Op == "finish":
				heard.Ended(c.Lease)
			}
			r.ID, r.Err = c.ID, pack(err)
			writing.Lock()
			defer writing.Unlock()
			out.Encode(r)
		})
	}
}

// do carries a call out.
func (c call) do(ctx context.Context, store *cronce.Store) (r reply, err error) {
	switch c.Op {
	case "claim":
		r.Lease, err = store.Claim(ctx, c.Claim)
	case "renew":
		r.Lease, err = store.Renew(ctx, c.Lease)
	case "finish":
		err = store.Finish(ctx, c.Lease, c.Result)
	case "request":
		err = store.Request(ctx, c.Request)
	case "requests":
		r.Requests, err = store.Requests(ctx, c.Job, c.Limit)
	case "now":
		r.Time, err = store.Now(ctx)
	case "jobs":
		if c.Job == "" {
			r.Jobs, err = store.Jobs(ctx)
			break
		}
		var state cronce.JobState
		var known bool
		if state, known, err = store.Job(ctx, c.Job); known {
			r.Jobs = []cronce.JobState{state}
		}
	case "runs":
		r.Runs, err = store.Runs(ctx, c.Query)
		for _, run := range r.Runs {
			r.Outputs = append(r.Outputs, run.Output)
		}
	default:
		err = errors.New("no such call: " + c.Op)
	}
	return r, err
}

// Borrowed is a store that another process lends.
type Borrowed struct {
	// Patience bounds calls whose context has no deadline; 0: the store's own patience does.
	// Set it before the first call.
	Patience time.Duration

	conn io.ReadWriteCloser
	gone chan struct{}

	mu      sync.Mutex
	out     *json.Encoder
	last    int
	waiting map[int]chan reply
}

// Borrow returns the driver of the store that is lent at the other end of conn.
func Borrow(conn io.ReadWriteCloser) *Borrowed {
	b := &Borrowed{conn: conn, gone: make(chan struct{}), out: json.NewEncoder(conn), waiting: map[int]chan reply{}}
	go func() {
		defer close(b.gone)
		for in := json.NewDecoder(conn); ; {
			var r reply
			if in.Decode(&r) != nil {
				return
			}
			b.mu.Lock()
			answer := b.waiting[r.ID]
			delete(b.waiting, r.ID)
			b.mu.Unlock()
			if answer != nil {
				answer <- r
			}
		}
	}()
	return b
}

// Gone is closed when the lender has ended: nobody renews the lease any more.
func (b *Borrowed) Gone() <-chan struct{} { return b.gone }

// ErrGone says that the process that lends the store has ended.
var ErrGone = errors.New("the process that keeps the lease has ended")

// ask makes a call and waits for its answer.
func (b *Borrowed) ask(ctx context.Context, c call) (reply, error) {
	if _, bound := ctx.Deadline(); !bound && b.Patience > 0 {
		var done func()
		ctx, done = context.WithTimeout(ctx, b.Patience)
		defer done()
	}
	if until, ok := ctx.Deadline(); ok {
		c.Patience = max(time.Until(until), time.Millisecond)
	}
	answer := make(chan reply, 1)
	b.mu.Lock()
	b.last++
	c.ID = b.last
	b.waiting[c.ID] = answer
	err := b.out.Encode(c)
	b.mu.Unlock()
	if err != nil {
		return reply{}, &cronce.UnavailableError{Store: "of the full program", Err: ErrGone}
	}
	select {
	case r := <-answer:
		return r, r.Err.unpack()
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return reply{}, &cronce.UnavailableError{Store: "that hosts share", Err: ctx.Err()}
		}
		return reply{}, ctx.Err()
	case <-b.gone:
		return reply{}, &cronce.UnavailableError{Store: "of the full program", Err: ErrGone}
	}
}

// Claim is of [cronce.Driver], as are the others.
func (b *Borrowed) Claim(ctx context.Context, c cronce.Claim) (cronce.Lease, error) {
	r, err := b.ask(ctx, call{Op: "claim", Claim: c})
	return r.Lease, err
}

func (b *Borrowed) Renew(ctx context.Context, l cronce.Lease) (cronce.Lease, error) {
	r, err := b.ask(ctx, call{Op: "renew", Lease: l})
	if err != nil {
		return l, err
	}
	return r.Lease, nil
}

func (b *Borrowed) Finish(ctx context.Context, l cronce.Lease, r cronce.Result) error {
	_, err := b.ask(ctx, call{Op: "finish", Lease: l, Result: r, Output: r.Output})
	return err
}

func (b *Borrowed) Request(ctx context.Context, r cronce.Request) error {
	_, err := b.ask(ctx, call{Op: "request", Request: r})
	return err
}

func (b *Borrowed) Requests(ctx context.Context, job string, limit int) ([]cronce.Request, error) {
	r, err := b.ask(ctx, call{Op: "requests", Job: job, Limit: limit})
	return r.Requests, err
}

func (b *Borrowed) Now(ctx context.Context) (time.Time, error) {
	r, err := b.ask(ctx, call{Op: "now"})
	return r.Time, err
}

func (b *Borrowed) Jobs(ctx context.Context, job string) ([]cronce.JobState, error) {
	r, err := b.ask(ctx, call{Op: "jobs", Job: job})
	return r.Jobs, err
}

func (b *Borrowed) Runs(ctx context.Context, q cronce.RunQuery) ([]cronce.Run, error) {
	r, err := b.ask(ctx, call{Op: "runs", Query: q})
	for i, output := range r.Outputs {
		r.Runs[i].Output = output
	}
	return r.Runs, err
}

// Prune is not for a borrower.
func (b *Borrowed) Prune(context.Context, string, time.Time) (int, error) {
	return 0, errors.ErrUnsupported
}

// Init is not for a borrower.
func (b *Borrowed) Init(context.Context) error { return errors.ErrUnsupported }

// Close ends the loan.
func (b *Borrowed) Close() error { return b.conn.Close() }

var _ cronce.Driver = (*Borrowed)(nil)
