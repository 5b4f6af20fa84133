package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
)

// systemStatus shows the jobs of all users of the machine.
func systemStatus(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := cli.NewFlags("status")
	asJSON := f.Bool("json", false, "")
	job, err := viewFlags(f, "status", args)
	if err != nil {
		return err
	}
	list, err := viewAll(ctx, stderr, []string{"status", "--json"}, func(name string, s cli.StateOf) cli.StateOf { s.User = name; return s })
	list = slices.DeleteFunc(list, func(s cli.StateOf) bool { return job != "" && s.Job != job })
	if job != "" && len(list) == 0 {
		return errors.Join(err, fmt.Errorf("no user of this machine has a job %q: 'cronce status --system' lists them", job))
	}
	out := bufio.NewWriter(stdout)
	if *asJSON {
		err = errors.Join(cli.WriteJSON(out, list), out.Flush(), err)
		return err
	}
	cli.WriteStates(out, list, time.Now(), true)
	return errors.Join(out.Flush(), err)
}

// systemRuns lists what was decided for all users of the machine.
func systemRuns(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := cli.NewFlags("runs")
	since := f.String("since", "", "")
	n := f.Int("n", 50, "")
	failed := f.Bool("failed", false, "")
	asJSON := f.Bool("json", false, "")
	job, err := viewFlags(f, "runs", args)
	if err != nil {
		return err
	}
	if *n < 0 {
		return cli.Misuse("runs", "-n %d: a number from 0 on is needed", *n)
	}
	ask := []string{"runs", "--json"}
	if *since != "" {
		at, err := cli.ParseSince(*since, time.Now())
		if err != nil {
			return cli.Misuse("runs", "--since: %w", err)
		}
		ask = append(ask, "--since", at.Format(time.RFC3339Nano))
	}
	if *failed {
		ask = append(ask, "--failed")
	}
	most := *n
	if job != "" {
		most = 0 // of this one, which not everybody has
	}
	ask = append(ask, "-n", strconv.Itoa(most))
	list, err := viewAll(ctx, stderr, ask, func(name string, r cronce.Run) cli.RunOf { return cli.RunOf{User: name, Run: r} })
	list = slices.DeleteFunc(list, func(r cli.RunOf) bool { return job != "" && r.Job != job })
	slices.SortStableFunc(list, func(a, b cli.RunOf) int { return a.Start.Compare(b.Start) })
	if *n > 0 {
		list = list[max(0, len(list)-*n):]
	}
	out := bufio.NewWriter(stdout)
	if *asJSON {
		return errors.Join(cli.WriteJSON(out, list), out.Flush(), err)
	}
	cli.WriteRunsOf(out, list, time.Now())
	return errors.Join(out.Flush(), err)
}

// viewFlags reads the command line of a view of the machine, which may name a job.
func viewFlags(f *cli.Flags, command string, args []string) (job string, err error) {
	whole := f.Bool("system", false, "")
	rest, err := f.Parse(args)
	switch {
	case err != nil:
		return "", err
	case !*whole:
		return "", cli.Misuse("", "use 'cronce %s', which does this without --system itself", command)
	case len(rest) > 1:
		return "", cli.Misuse(command, "one job at most is expected, not %d", len(rest))
	case os.Geteuid() != 0:
		return "", &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("only root can look at the stores of all users: sudo cronce %s --system", command)}
	case len(rest) == 0:
		return "", nil
	}
	if err := cronce.CheckName(rest[0]); err != nil {
		return "", cli.Misuse(command, "%w", err)
	}
	return rest[0], nil
}

// viewAll asks the thin program, as each user who has a store, and returns what
// it says of all of them, sorted by user. Root itself opens none of the stores:
// what is in them is for their users to write. What is wrong with one is told,
// and the error at the end says so.
func viewAll[T, Of any](ctx context.Context, stderr io.Writer, ask []string, of func(name string, x T) Of) ([]Of, error) {
	accounts, err := storeUsers()
	if err != nil {
		return nil, err
	}
	thin, err := openThin()
	if err != nil {
		return nil, err
	}
	defer thin.file.Close()
	lists, errs := make([][]T, len(accounts)), make([]error, len(accounts))
	slots := make(chan struct{}, 2*runtime.NumCPU())
	var asked sync.WaitGroup
	for i, account := range accounts {
		slots <- struct{}{}
		asked.Go(func() {
			defer func() { <-slots }()
			lists[i], errs[i] = viewOne[T](ctx, thin, account, ask)
		})
	}
	asked.Wait()
	all := []Of{}
	wrong := 0
	for i, account := range accounts {
		for _, x := range lists[i] {
			all = append(all, of(account.name, x))
		}
		if errs[i] == nil {
			continue
		}
		wrong++
		for line := range strings.Lines(errs[i].Error()) {
			fmt.Fprintf(stderr, "cronce: user %s: %s\n", account.name, cli.Readable([]byte(strings.TrimSpace(line))))
		}
	}
	if wrong > 0 {
		return all, &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("of %s this is not all", count(wrong, "user"))}
	}
	return all, nil
}

const (
	longestView = time.Minute // a store may be on a disk that does not answer
	largestView = 256 << 20
)

// viewOne asks as one user. No store is nothing to say.
func viewOne[T any](ctx context.Context, thin *thin, account systemAccount, ask []string) (list []T, err error) {
	ctx, cancel := context.WithTimeout(ctx, longestView)
	defer cancel()
	// By a name that needs no way through folders, which may be closed to the user.
	cmd := exec.CommandContext(ctx, "/proc/self/fd/3", ask...)
	cmd.Args[0] = "cronce"
	cmd.Env, cmd.Dir = account.environment(), "/"
	cmd.ExtraFiles = []*os.File{thin.file}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: account.uid, Gid: account.gid, Groups: account.groups}}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(io.LimitReader(out, largestView))
	for err == nil {
		var x T
		if err = dec.Decode(&x); err == nil {
			list = append(list, x)
		}
	}
	if err != io.EOF {
		cancel()
	}
	ended := cmd.Wait()
	switch {
	case cmd.ProcessState.ExitCode() == cli.NoInput:
		return nil, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return list, fmt.Errorf("no answer for %s", longestView)
	case err != io.EOF:
		return list, err
	case ended != nil && said.Len() > 0:
		return list, errors.New(strings.ReplaceAll(strings.TrimSpace(said.String()), "cronce: ", ""))
	}
	return list, ended
}

// storesOfUsers is where root makes the stores of users, each named for the number.
const storesOfUsers = "/var/lib/cronce"

// storeUsers are the users who may have a store: those who have one in the place
// for that, those with jobs in the crontabs of the machine who have one in their
// home, and root. They are sorted by name.
func storeUsers() ([]systemAccount, error) {
	users, _, _, _ := (&systemCrontabs{}).read()
	found := map[uint32]systemAccount{}
	for _, u := range users {
		// Where root cannot look, as into a home on another machine, the user can.
		_, err := os.Lstat(u.account.home + "/.local/state/cronce")
		if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENOTDIR) {
			found[u.account.uid] = u.account
		}
	}
	entries, err := os.ReadDir(storesOfUsers)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names := []string{"0"}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	for _, name := range names {
		uid, err := strconv.ParseUint(name, 10, 32)
		if _, known := found[uint32(uid)]; err != nil || known {
			continue
		}
		// The store of a user who is gone is looked at by its number.
		a := systemAccount{name: name, home: "/", uid: uint32(uid), gid: uint32(uid)}
		if u, err := user.LookupId(name); err == nil {
			if a, err = findAccount(u.Username); err != nil {
				return nil, err
			}
		}
		found[uint32(uid)] = a
	}
	return slices.SortedFunc(maps.Values(found), func(a, b systemAccount) int { return strings.Compare(a.name, b.name) }), nil
}
