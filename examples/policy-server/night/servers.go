package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cronce/cronce"
)

// A night is what happens in one.
type night struct {
	ctx       context.Context
	out       io.Writer
	dir       string // temporary
	program   string // the policy server's
	nginx     string // its program
	receivers *receivers
	servers   [4]*policyServer
	processes []*process // all that were ever started

	store     *cronce.Store // that the servers share
	storeName string        // for people
	place     string        // as CRONCE_STORE has it

	plain  count
	killed *killed
}

// A policyServer keeps its name and address over restarts.
type policyServer struct {
	*process
	name, address string
	args          []string
}

// killed is who was killed, and in the middle of which tick.
type killed struct {
	name string
	pid  int
	tick int64
}

// startServers starts all of them, and returns when they answer.
func (n *night) startServers(args ...string) error {
	for i := range n.servers {
		address, err := freePort()
		if err != nil {
			return err
		}
		n.servers[i] = &policyServer{name: fmt.Sprint(i + 1), address: address, args: args}
		if err := n.startServer(n.servers[i]); err != nil {
			return err
		}
	}
	return nil
}

func (n *night) startServer(s *policyServer) (err error) {
	argv := append([]string{n.program, "-name", s.name, "-listen", s.address, "-receivers", strings.Join(n.receivers.addresses, ",")}, s.args...)
	// A URL may have a password in it, which is for no command line.
	if s.process, err = n.start("policy server "+s.name, []string{"CRONCE_STORE=" + n.place}, argv...); err != nil {
		return err
	}
	return n.ready(s.process, func() error {
		_, err := ask(n.ctx, "http://"+s.address+"/policy")
		return err
	})
}

func (n *night) drainAll() error {
	for _, s := range n.servers {
		if err := s.drain(); err != nil {
			return err
		}
	}
	return nil
}

// restart is a step of a rolling restart: a server is told to end in the middle
// of sending a tick, by itself or another; when it has come to its end it is
// started anew.
func (n *night) restart(s *policyServer, v *visits) error {
	defer v.whileRestarting()()
	_, from, err := n.trap(func(string) { s.terminate() })
	if err != nil {
		return err
	}
	if err := s.ended(); err != nil {
		return err
	}
	what := "drained"
	if from == s.name {
		what = "drained while it sent"
	}
	fmt.Fprintf(n.out, "            -- rolling restart: server %s %s, started anew\n", s.name, what)
	return n.startServer(s)
}

// killOne kills the next server that is in the middle of sending, and starts it
// anew, as whatever looks after it would.
func (n *night) killOne() error {
	tick, from, err := n.trap(func(from string) { n.server(from).kill() })
	if err != nil {
		return err
	}
	s := n.server(from)
	n.receivers.giveUp(tick)
	n.killed = &killed{name: s.name, pid: s.cmd.Process.Pid, tick: tick}
	fmt.Fprintf(n.out, "            -- kill -9 of server %s while it sent tick %s; started anew\n", s.name, clock(tick))
	return n.startServer(s)
}

// trap has f called in the middle of sending the next tick, and returns when it
// was, with that tick and who sends it.
func (n *night) trap(f func(from string)) (tick int64, from string, err error) {
	sprung := make(chan struct{})
	n.receivers.setTrap(func(t int64, who string) {
		tick, from = t, who
		f(from)
		close(sprung)
	})
	select {
	case <-sprung:
		return tick, from, nil
	case <-n.ctx.Done():
		return 0, "", n.ctx.Err()
	case <-time.After(patience):
		return 0, "", fmt.Errorf("no tick was sent for %s", patience)
	}
}

// server is the server of that name.
func (n *night) server(name string) *policyServer {
	return n.servers[slices.IndexFunc(n.servers[:], func(s *policyServer) bool { return s.name == name })]
}

// await waits until each receiver has that many updates of a tick. One that
// takes too long is shown as it is, and judged at the end.
func (n *night) await(tick int64, updates int) error {
	ctx, cancel := context.WithDeadline(n.ctx, time.Unix(tick, 0).Add(patience))
	defer cancel()
	n.receivers.until(ctx, tick, updates)
	return n.ctx.Err()
}

// awaitFirst waits for the first tick that each receiver has.
func (n *night) awaitFirst() (tick int64, err error) {
	ctx, cancel := context.WithTimeout(n.ctx, patience)
	defer cancel()
	tick, ok := n.receivers.first(ctx)
	if !ok {
		return 0, fmt.Errorf("no tick has reached every receiver: %w", ctx.Err())
	}
	return tick, nil
}

var client = &http.Client{Transport: &http.Transport{}, Timeout: patience}

// ask asks for a page, which must be there.
func ask(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	reply, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err == nil && reply.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", url, reply.Status)
	}
	return body, err
}
