// Night replays the night of N crons with the policy server beside it: four
// processes behind nginx and thirty receivers that count. First, for a moment,
// each process has a cron of its own; then they have cronce. Two rolling
// restarts and a kill -9 in the middle of sending come over them. It prints what
// each receiver got of each tick, and exits 1 if that is not as promised.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

const (
	minTicks   = 12               // or there is no room for what happens
	plainTicks = 4                // that are shown without cronce
	patience   = 20 * time.Second // for what should take a moment
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ticks := flag.Int("ticks", 20, fmt.Sprintf("ticks to count, a second each; at least %d", minTicks))
	store := flag.String("store", "local", "the store that the processes share: local, redis (one of its own), or given, which is the one that CRONCE_STORE names")
	flag.Parse()
	if flag.NArg() > 0 || *ticks < minTicks {
		flag.Usage()
		os.Exit(64)
	}
	if err := run(ctx, os.Stdout, *ticks, *store, ""); err != nil {
		fmt.Fprintln(os.Stderr, "night:", err)
		os.Exit(1)
	}
}

// run is the whole night. The program is the policy server's; "": it is built.
func run(ctx context.Context, out io.Writer, ticks int, store, program string) (err error) {
	// A process that we start is to end with us, and the kernel takes the thread
	// that started it for us.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	n := &night{ctx: ctx, out: out, program: program}
	if n.dir, err = os.MkdirTemp("", "policy-server-"); err != nil {
		return err
	}
	defer os.RemoveAll(n.dir)
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, n.logs())
		}
		err = errors.Join(err, n.endAll())
	}()
	if n.nginx, err = find("nginx"); err != nil {
		return err
	}
	if err := n.openStore(store); err != nil {
		return err
	}
	defer n.store.Close()
	if n.program == "" {
		n.program = filepath.Join(n.dir, "policy-server")
		if err := build(n.program); err != nil {
			return err
		}
	}
	if n.receivers, err = listen(30); err != nil {
		return err
	}
	defer n.receivers.close()
	if err := n.withoutCronce(); err != nil {
		return err
	}
	return n.withCronce(ticks)
}

// build builds the policy server. Git is not asked for its version, which a
// checkout of somebody else's refuses.
func build(program string, flags ...string) error {
	args := append([]string{"build", "-buildvcs=false", "-o", program}, flags...)
	out, err := exec.Command("go", append(args, "github.com/cronce/cronce/examples/policy-server")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// withoutCronce shows a few ticks of four processes with a cron each.
func (n *night) withoutCronce() error {
	fmt.Fprintf(n.out, "Without cronce: %d processes, a cron in each.\n\n%s", len(n.servers), head)
	if err := n.startServers("-plain"); err != nil {
		return err
	}
	first := time.Now().Truncate(time.Second).Add(time.Second).Unix()
	for tick := first; tick < first+plainTicks; tick++ {
		if err := n.await(tick, len(n.servers)); err != nil {
			return err
		}
		fmt.Fprint(n.out, n.receivers.row(tick))
	}
	err := n.drainAll()
	for tick := first; tick < first+plainTicks; tick++ {
		n.plain.add(n.receivers.of(tick))
	}
	return err
}

// withCronce is the night as it should have been.
func (n *night) withCronce(ticks int) error {
	fmt.Fprintf(n.out, "\nWith cronce, on %s; nginx in front.\n\n%s", n.storeName, head)
	n.receivers.forget()
	if err := n.startServers(); err != nil {
		return err
	}
	visits, err := n.startNginx()
	if err != nil {
		return err
	}
	defer visits.end()
	first, err := n.awaitFirst()
	if err != nil {
		return err
	}
	for i := range ticks {
		tick := first + int64(i)
		if err := n.await(tick, 1); err != nil {
			return err
		}
		fmt.Fprint(n.out, n.receivers.row(tick))
		if err := n.event(i, ticks, visits); err != nil {
			return err
		}
	}
	if err := n.awaitLost(); err != nil {
		return err
	}
	visits.end()
	if err := n.drainAll(); err != nil {
		return err
	}
	return n.sum(first, ticks, visits)
}

// event is what comes over the servers after that many ticks: twice all of them
// are restarted, a tick apart, and in between one is killed.
func (n *night) event(after, ticks int, v *visits) error {
	if after == ticks/2 {
		return n.killOne()
	}
	for _, first := range []int{1 + ticks/20, ticks * 2 / 3} {
		if i := after - first; i >= 0 && i < len(n.servers) {
			return n.restart(n.servers[i], v)
		}
	}
	return nil
}
