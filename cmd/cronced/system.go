package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/build"
	"github.com/cronce/cronce/internal/cli"
)

// system is a serve for all users of a machine. It reads the crontabs, as root,
// and has a process for each user, as that user, do all the rest: nothing that
// a user can write is written, or executed, by root.
type system struct {
	crontabs   systemCrontabs
	strict     bool
	besideCron bool
	notBefore  time.Time // what was due by then is nobody's to catch up
	thin       *thin
	reap       *reaper
	json       bool // its lines
	out        *lines
	turns      *cronce.Turnstile     // nil: runs are not bounded
	users      map[string]*userServe // those that are served, by name
	all        []*userServe          // and those that end
	stopping   stopping
	first      map[string]bool // jobs there were at the start, by user and job
}

// lookForCron is how often a cron daemon is looked for that was started meanwhile.
const lookForCron = 10 * time.Second

// serve runs the jobs of all users until it is told to stop.
func (s *system) serve(ctx context.Context, maxRunning int, stdout, stderr io.Writer) (err error) {
	if os.Geteuid() != 0 {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf(
			"serve --system runs jobs as their users, which only root can: sudo cronce serve --system; or serve your own: cronce serve --crontab FILE")}
	}
	if err := s.alone(); err != nil {
		return err
	}
	users, problems, _, _ := s.crontabs.read()
	for _, p := range problems {
		cli.Tell(stderr, p)
	}
	if len(problems) > 0 && s.strict {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf("%s (--strict): nothing is served", count(len(problems), "problem"))}
	}
	if s.thin, err = openThin(); err != nil {
		return err
	}
	defer s.thin.file.Close()
	if maxRunning > 0 {
		s.turns = cronce.NewTurnstile(maxRunning)
	}
	syscall.Umask(0o022) // of the jobs, as cron has it
	s.reap = newReaper(os.Getpid())
	s.first = map[string]bool{}
	ours := !s.crontabs.ofCron() || bootIsOurs()
	for name, u := range users {
		for _, job := range u.jobs {
			s.first[name+"\x00"+job.Name] = ours
		}
	}
	s.out = newLines(stdout, s.json)
	defer s.out.close()
	return s.run(ctx, users)
}

// alone says that a cron daemon runs the same lines.
func (s *system) alone() error {
	if s.besideCron || !s.crontabs.ofCron() {
		return nil
	}
	if pid, runs := cronRuns(); runs {
		return &cli.ExitError{Code: cli.Config, Err: fmt.Errorf(
			"a cron daemon is running (pid %d) and would run each line a second time: stop it for good first (systemctl disable --now cron), or serve other crontabs than its own (--crontab), or say that it has others (--beside-cron)", pid)}
	}
	return nil
}

// run serves the users. The signals are those of serve.
func (s *system) run(ctx context.Context, users map[string]*userJobs) (err error) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGPIPE)
	s.users = map[string]*userServe{}
	s.set(users)
	s.out.say("serve", "cronce %s serves %s, pid %d", build.Version(), s.what(users), os.Getpid())
	notify("READY=1")
	look := time.NewTicker(watchEvery)
	defer look.Stop()
	terminal := hasTerminal()
	var looked time.Time
	for {
		select {
		case <-s.stopping.gone:
			s.out.say("serve", "stopped")
			return err
		case <-s.stopping.kill:
			s.killAll()
		case <-ctx.Done():
			if s.stopping.gone == nil {
				s.begin(ctx.Err().Error())
			}
			ctx = context.WithoutCancel(ctx)
		case now := <-look.C:
			if s.stopping.gone != nil {
				s.lookForStopped()
				continue
			}
			if now.Sub(looked) >= lookForCron {
				looked = now
				if err = s.alone(); err != nil {
					s.begin(err.Error())
					continue
				}
			}
			if s.crontabs.changed() {
				s.reload()
			}
		case sig := <-signals:
			switch {
			case sig == syscall.SIGPIPE:
			case sig == syscall.SIGHUP && !(terminal && !hasTerminal()):
				s.crontabs.again()
			case s.stopping.gone == nil:
				s.begin(sig.String())
			case time.Since(s.stopping.asked) < sameSignal:
			default:
				s.end(sig.String())
			}
		}
	}
}

// what says what is served, of whom and whence.
func (s *system) what(users map[string]*userJobs) string {
	jobs := 0
	for _, u := range users {
		jobs += len(u.jobs)
	}
	from := "the crontabs of this machine"
	if len(s.crontabs.explicit) > 0 {
		from = strings.Join(s.crontabs.explicit, ", ")
	}
	return fmt.Sprintf("%s of %s, from %s", count(jobs, "job"), count(len(users), "user"), from)
}

// reload loads the crontabs that have changed.
func (s *system) reload() {
	users, problems, fresh, kept := s.crontabs.read()
	for _, why := range kept {
		s.out.say("serve", "NOT LOADED %v; what was served goes on", why)
	}
	if !fresh {
		return
	}
	for _, p := range problems {
		s.out.say("serve", "PROBLEM    %v", p)
	}
	if len(problems) > 0 && s.strict {
		s.out.say("serve", "NOT LOADED %s (--strict); what was served goes on", count(len(problems), "problem"))
		return
	}
	s.set(users)
	s.out.say("serve", "loaded     %s", s.what(users))
}

// set has each user served what is that user's now. Whoever has no job any more
// keeps the process until its runs have ended, so that there is never more than
// one for a user; another account of the same name gets its own.
func (s *system) set(users map[string]*userJobs) {
	s.all = slices.DeleteFunc(s.all, func(u *userServe) bool {
		select {
		case <-u.gone:
			return true
		default:
			return false
		}
	})
	for name, u := range s.users {
		switch next := users[name]; {
		case next == nil:
			u.set(nil)
		case !next.account.same(u.account):
			u.stop(draining)
			delete(s.users, name)
		}
	}
	for name, next := range users {
		jobs := make([]userJob, len(next.jobs))
		for i, job := range next.jobs {
			jobs[i] = userJob{Lines: job.Lines, AtBoot: s.first[name+"\x00"+job.Name]}
		}
		if u := s.users[name]; u != nil {
			u.set(jobs)
			continue
		}
		u := newUserServe(s, next.account, jobs)
		s.users[name] = u
		s.all = append(s.all, u)
	}
}
