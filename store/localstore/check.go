package localstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cronce/cronce"
)

// Lock is a lock of a job that somebody holds.
type Lock struct {
	Run cronce.Run // its Job only, where no run on record has the lock
	// Guarded: the process that watches over the run lives, and can be asked to
	// end it. If not, only what the run started keeps the lock.
	Guarded bool
	// Processes keep the lock, as far as this user may see them; without a serve
	// that gave the run to a guard.
	Processes []Process
}

// Process is a process of this machine.
type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

// Locks returns the locks that somebody holds now, of that job or of all.
// Runs that it finds dead are marked as lost.
func Locks(ctx context.Context, o Options, job string) ([]Lock, error) {
	d, err := openDriver(o, thisHost())
	if err != nil {
		return nil, err
	}
	folders, err := d.folders(job)
	if err != nil {
		return nil, err
	}
	var all []Lock
	for _, j := range folders {
		st, err := d.read(&j)
		if err != nil {
			return nil, err
		}
		if st == nil {
			continue
		}
		locks, err := d.jobLocks(ctx, st.job)
		if err != nil {
			return nil, err
		}
		all = append(all, locks...)
	}
	return all, nil
}

// jobLocks are the locks of a job that somebody holds.
func (d *driver) jobLocks(ctx context.Context, job string) ([]Lock, error) {
	s, err := d.enter(ctx, job, false, d.patience)
	if errors.Is(err, errNoJob) {
		return nil, nil
	}
	if err != nil {
		return nil, diskError(d.dir, "", err)
	}
	lives, err := s.survey("", true)
	var givers []procID
	if s.st != nil {
		givers = slices.Clone(s.st.givers)
	}
	s.leave()
	if err != nil {
		return nil, diskError(d.dir, "", err)
	}
	// A serve has a copy of the lock as well, but no part in the run.
	gives := func(o openFile) bool {
		return slices.ContainsFunc(givers, func(p procID) bool { return p.PID == o.pid && !p.gone() })
	}
	var all []Lock
	for _, l := range lives {
		// No signals: it only looks.
		found, _, err := d.signalHolders(ctx, job, []lockID{l.lock}, 0, 0)
		if err != nil {
			return nil, err
		}
		lock := Lock{Run: l.run, Guarded: l.claimer != 0}
		for _, o := range found {
			if o != unseen && !gives(o) && !slices.ContainsFunc(lock.Processes, func(p Process) bool { return p.PID == o.pid }) {
				comm, _ := readFile("/proc/" + strconv.Itoa(o.pid) + "/comm")
				lock.Processes = append(lock.Processes, Process{o.pid, strings.TrimSpace(string(comm))})
			}
		}
		if len(found) > 0 { // else it has ended meanwhile
			all = append(all, lock)
		}
	}
	return all, nil
}

// Finding is one thing that [Check] looked at.
type Finding struct {
	What    string // what was looked at: "folder", "disk", …
	Is      string // how it was found
	Problem error  // what is wrong with it, and the cure; nil: nothing
}

// The least room that a store needs to go on for a while.
const (
	leastBytes = 1 << 20
	leastFiles = 64
)

// Check looks whether a store is fit for use, and names all that is not. It
// changes nothing but that it marks dead runs as lost. The error wraps
// fs.ErrNotExist where there is no store.
func Check(ctx context.Context, o Options) ([]Finding, error) { return check(ctx, o, thisHost()) }

func check(ctx context.Context, o Options, h host) ([]Finding, error) {
	p, err := h.place(o.Dir)
	if err != nil {
		return []Finding{{What: "place", Problem: err}}, nil
	}
	all := []Finding{{What: "place", Is: p.dir}}
	info, err := os.Stat(p.dir)
	if errors.Is(err, syscall.ENOENT) {
		return nil, err
	}
	if err == nil && !info.IsDir() {
		err = errors.New("this is not a folder")
	}
	if err != nil {
		return append(all, Finding{What: "folder", Problem: &cronce.ConfigError{Store: p.dir, What: err.Error(), Cure: "set CRONCE_STORE to the folder of the store"}}), nil
	}
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	mine := owner == h.uid
	if h.uid == 0 {
		h.uid = owner // root may look at every store
	}
	faults := h.faults(p.dir, info)
	all = append(all, findings("folder", fmt.Sprintf("of user %d, mode %04o", owner, info.Mode().Perm()), faults)...)
	all = append(all, room(p.dir))
	err = h.checkFormat(p.dir, false)
	is := strings.TrimSpace(formatLine)
	if new, e := exists(p.dir + "/format"); e == nil && !new {
		is = "none yet: nothing has run with it"
	}
	all = append(all, Finding{What: "format", Is: is, Problem: err})
	if err != nil {
		return all, nil // its files would be guessed at
	}
	jobs, journals := checkJournals(p.dir)
	all = append(all, journals...)
	if !mine || len(faults) > 0 || len(jobs) == 0 {
		return all, nil
	}
	d, err := openDriver(o, h)
	if err != nil {
		return append(all, Finding{What: "locks", Problem: err}), nil
	}
	d.patience = time.Second // whoever decides for a job needs no longer
	return append(all, d.checkLocks(ctx, jobs)...), nil
}

// findings are the problems with something, or that there is none.
func findings(what, is string, problems []error) []Finding {
	if len(problems) == 0 {
		return []Finding{{What: what, Is: is}}
	}
	all := make([]Finding, len(problems))
	for i, err := range problems {
		all[i] = Finding{What: what, Is: is, Problem: err}
	}
	return all
}

// room is how much there is on the store's disk.
func room(dir string) Finding {
	f := Finding{What: "disk"}
	var st syscall.Statfs_t
	if err := retry(func() error { return syscall.Statfs(dir, &st) }); err != nil {
		f.Problem = &cronce.UnavailableError{Store: dir, Err: err}
		return f
	}
	free := int64(st.Bavail) * st.Bsize
	f.Is = fmt.Sprintf("%s, %s free", mountType(dir), bytesText(free))
	few := st.Files > 0 && st.Ffree < leastFiles
	if few {
		f.Is += fmt.Sprintf(", room for %d files", st.Ffree)
	}
	if free < leastBytes || few {
		f.Problem = &cronce.UnavailableError{Store: dir, Err: fmt.Errorf("the disk is nearly full: %s: make room, or nothing will be run", f.Is)}
	}
	return f
}

// bytesText writes a size as people read it.
func bytesText(n int64) string {
	size, unit := float64(n)/(1<<20), "MiB"
	if size >= 1<<10 {
		size, unit = size/(1<<10), "GiB"
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}

// checkJournals reads every journal whole, and returns the jobs whose newest
// decisions can be read.
func checkJournals(dir string) (jobs []string, all []Finding) {
	names, err := readDir(dir + "/jobs")
	if errors.Is(err, syscall.ENOENT) {
		return nil, []Finding{{What: "journals", Is: "no job yet"}}
	}
	if err != nil {
		return nil, []Finding{{What: "journals", Problem: diskError(dir, "", err)}}
	}
	slices.Sort(names)
	files := 0
	var problems []error
	for _, name := range names {
		j := journal{store: dir, dir: dir + "/jobs/" + name}
		st, err := j.load(nil)
		if err != nil || st.seq == 0 {
			if err != nil && !errors.Is(err, syscall.ENOENT) {
				problems = append(problems, diskError(dir, "", err))
			}
			continue // a folder that has no journal has decided nothing
		}
		if want := folderName(st.job); want != name {
			problems = append(problems, &cronce.ConfigError{Store: dir, What: fmt.Sprintf("the folder %s has the journal of job %q, which belongs into %s", name, st.job, want),
				Cure: "move that folder away"})
			continue
		}
		jobs = append(jobs, st.job)
		for _, n := range st.all {
			_, err := j.records(n)
			if errors.Is(err, syscall.ENOENT) {
				continue // forgotten meanwhile
			}
			files++
			if err != nil {
				problems = append(problems, diskError(dir, "", err))
			}
		}
		if _, err := j.readControl(); err != nil {
			problems = append(problems, diskError(dir, "", err))
		}
	}
	return jobs, findings("journals", fmt.Sprintf("jobs: %d, files: %d", len(jobs), files), problems)
}

// checkLocks says which jobs are held, and by whom.
func (d *driver) checkLocks(ctx context.Context, jobs []string) (all []Finding) {
	for _, job := range jobs {
		locks, err := d.jobLocks(ctx, job)
		if err != nil {
			all = append(all, Finding{What: "locks", Problem: err})
		}
		for _, l := range locks {
			all = append(all, Finding{What: "locks", Is: fmt.Sprintf("job %q is held by %s", job, l)})
		}
	}
	if len(all) == 0 {
		all = append(all, Finding{What: "locks", Is: "no job is held"})
	}
	return all
}

// String names the run and the processes.
func (l Lock) String() string {
	s := "a run that is not on record"
	if l.Run.ID != "" {
		s = "run " + l.Run.ID
	}
	if !l.Guarded {
		s += " that nothing watches over any more"
	}
	names := make([]string, len(l.Processes))
	for i, p := range l.Processes {
		names[i] = fmt.Sprintf("pid %d (%s)", p.PID, p.Name)
	}
	if len(names) == 0 {
		return s + ": no process that this user can see"
	}
	return s + ": " + strings.Join(names, ", ")
}
