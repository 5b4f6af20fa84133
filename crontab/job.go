package crontab

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/schedule"
)

// Job is what the lines of one name are together: due whenever one of them is.
// Its lines have the same command, input, user, environment and policies.
type Job struct {
	cronce.Job
	Lines []*Line // in the file's order, at least one

	timed  *Line // the first that has a schedule
	groups []group
}

// group is a schedule and how many lines have it.
type group struct {
	schedule *schedule.Schedule
	lines    int
}

// Reboot reports whether one of the lines is an @reboot line.
func (j *Job) Reboot() bool {
	return slices.ContainsFunc(j.Lines, func(l *Line) bool { return l.Reboot })
}

// Slots is how many runs the job has at that tick: n where n identical lines
// are due, 0 where none is. Lines with different schedules that meet at a tick
// do not add up, for a job runs once at a tick unless it is written down twice.
func (j *Job) Slots(tick time.Time) int {
	n := 0
	for _, g := range j.groups {
		if g.lines > n && g.schedule.Next(tick.Add(-time.Nanosecond)).Equal(tick) {
			n = g.lines
		}
	}
	return n
}

// Find returns the jobs with a line of that command, as cron hands it to the
// shell, and in a system crontab of that user: none, one, or more where lines
// with one command have different names or input.
func (f *File) Find(user, command string) []*Job {
	var found []*Job
	for _, j := range f.Jobs {
		if slices.ContainsFunc(j.Lines, func(l *Line) bool {
			return l.User == user && l.Command == strings.TrimSuffix(command, "\r")
		}) {
			found = append(found, j)
		}
	}
	return found
}

// join makes jobs of the lines.
func (p *parser) join() {
	byName := map[string]*Job{}
	conflicts := map[*Job]bool{}
	for _, l := range p.file.Lines {
		j := byName[l.Job.Name]
		if j == nil {
			j = &Job{Job: l.Job}
			byName[l.Job.Name] = j
			p.file.Jobs = append(p.file.Jobs, j)
		} else if what := j.difference(l); what != "" {
			conflicts[j] = true
			p.conflict(j.Lines[0], l, what)
			continue
		}
		j.Lines = append(j.Lines, l)
		if j.timed == nil && !l.Reboot {
			j.timed = l
		}
	}
	p.file.Jobs = slices.DeleteFunc(p.file.Jobs, func(j *Job) bool { return conflicts[j] })
	for _, j := range p.file.Jobs {
		j.unite()
	}
}

func (p *parser) conflict(first, l *Line, what string) {
	p.errorAt(l.Number, skip(l.Text, 0, blanks), nil,
		"job %q is on line %d already, with another %s; both lines are left out: give one of them a name of its own",
		l.Job.Name, first.Number, what)
}

// difference returns what keeps a line from joining the job that has its name,
// "" if nothing does.
func (j *Job) difference(l *Line) string {
	first := j.Lines[0]
	a, b := first.Job, l.Job
	for _, job := range []*cronce.Job{&a, &b} {
		job.Schedule, job.Zone, job.Seconds = "", "", schedule.ByCount
	}
	switch {
	case first.User != l.User:
		return "user"
	case strings.TrimSpace(first.Command) != strings.TrimSpace(l.Command):
		return "command"
	case first.Stdin != l.Stdin:
		return "input"
	case a != b:
		return "setting (" + policies(a) + " there, " + policies(b) + " here)"
	}
	if name := differentVariable(first.Env, l.Env); name != "" {
		return name
	}
	if j.timed != nil && !l.Reboot && j.timed.Job.Zone != l.Job.Zone {
		return "time zone"
	}
	return ""
}

func policies(j cronce.Job) string {
	if s := j.Definition().Policies; s != "" {
		return s
	}
	return "none"
}

// differentVariable returns the first variable that is not the same in both.
func differentVariable(a, b []string) string {
	for i := range max(len(a), len(b)) {
		if i < len(a) && i < len(b) && a[i] == b[i] {
			continue
		}
		longer := a
		if len(b) > len(a) {
			longer = b
		}
		name, _, _ := strings.Cut(longer[i], "=")
		return name
	}
	return ""
}

// unite gives the job the union of its lines' schedules.
func (j *Job) unite() {
	var texts []string
	seen := map[string]int{} // schedule text -> place in j.groups
	if j.timed != nil {
		j.Zone = j.timed.Job.Zone
	}
	for _, l := range j.Lines {
		if l.Reboot {
			continue
		}
		text := l.Job.Schedule
		if i, ok := seen[text]; ok {
			j.groups[i].lines++
			continue
		}
		if len(texts) > 0 && l.Job.Seconds != j.Seconds {
			j.Seconds = schedule.ByCount // each part tells by the number of its fields
		} else {
			j.Seconds = l.Job.Seconds
		}
		seen[text] = len(texts)
		texts = append(texts, text)
		j.groups = append(j.groups, group{l.schedule, 1})
	}
	j.Schedule = strings.Join(texts, " | ")
}

// nameOf names a line that no directive names: by its command and input as
// they are written, in a system crontab with the user in front. What cannot be
// a name as it is, is made one that begins alike and ends in a hash.
func nameOf(l *Line) string {
	name := strings.TrimSpace(l.Command)
	if l.input != "" {
		name += "%" + strings.TrimSpace(l.input)
	}
	if l.User != "" {
		name = l.User + ":" + name
	}
	if cronce.CheckName(name) == nil {
		return name
	}
	const hashBytes, prefixBytes = 6, 160
	sum := sha256.Sum256([]byte(name))
	prefix := strings.ToValidUTF8(name, "\ufffd")
	prefix = strings.Join(strings.FieldsFunc(prefix, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
	}), " ")
	if len(prefix) > prefixBytes {
		prefix = prefix[:prefixBytes]
		for !utf8.ValidString(prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return strings.TrimSpace(prefix) + "~" + hex.EncodeToString(sum[:hashBytes])
}
