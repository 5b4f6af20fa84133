package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cronce/cronce"
)

// RunOf is a run of a user's, where there are those of several.
type RunOf struct {
	User string `json:"user"`
	cronce.Run
}

// StateOf is a job as it is now, of a user's where there are those of several.
type StateOf struct {
	User string `json:"user,omitempty"`
	cronce.JobState
	Next string `json:"next,omitempty"` // its next tick, "-" where nobody is there to start it
}

// WriteRuns lists runs, a line each; ofHosts: with the host.
func WriteRuns(w io.Writer, list []cronce.Run, now time.Time, ofHosts bool) {
	columns := runColumns
	if ofHosts {
		columns = slices.Insert(slices.Clone(columns), hostColumn, "HOST")
	}
	t := NewTable(w, columns...)
	byID := map[string]*cronce.Run{}
	for i, r := range list {
		byID[r.ID] = &list[i]
	}
	for _, r := range list {
		cells := runCells(r, byID[r.Held], now)
		if ofHosts {
			cells = slices.Insert(cells, hostColumn, r.Holder.Host)
		}
		t.Row(cells...)
	}
	t.Flush()
}

// hostColumn is where HOST stands in runColumns: before TOOK.
const hostColumn = 4

// WriteRunsOf lists the runs of users.
func WriteRunsOf(w io.Writer, list []RunOf, now time.Time) {
	t := NewTable(w, append([]string{"USER"}, runColumns...)...)
	byID := map[string]*cronce.Run{}
	for i, r := range list {
		byID[r.ID] = &list[i].Run
	}
	for _, r := range list {
		t.Row(append([]string{r.User}, runCells(r.Run, byID[r.Held], now)...)...)
	}
	t.Flush()
}

var runColumns = []string{"START", "JOB", "TICK", "RESULT", "TOOK", "RUN", "NOTE"}

func runCells(r cronce.Run, held *cronce.Run, now time.Time) []string {
	tick := cronce.Stamp(r.Tick)
	switch {
	case !r.Tick.IsZero():
	case r.Holder.Via == "hold":
		tick = "held"
	default:
		tick = "by hand"
	}
	return []string{cronce.Stamp(r.Start), r.Job, tick, Outcome(r), Took(r, now), r.ID, Note(r, held)}
}

// WriteStates lists jobs as they are now, a line each; ofUsers: with the user.
func WriteStates(w io.Writer, list []StateOf, now time.Time, ofUsers bool) {
	columns := []string{"USER", "JOB", "NOW", "LAST", "NEXT", "SCHEDULE"}
	first := 1
	if ofUsers {
		first = 0
	}
	t := NewTable(w, columns[first:]...)
	for _, s := range list {
		cells := []string{s.User, s.Job, Doing(s.JobState, now), Last(s.JobState, now), s.Next, s.Definition.String()}
		t.Row(cells[first:]...)
	}
	t.Flush()
}

// Table writes columns.
type Table struct {
	*tabwriter.Writer
	breaks *strings.Replacer // of what would begin another column or line
}

// NewTable begins one with its headings.
func NewTable(w io.Writer, columns ...string) Table {
	t := Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), strings.NewReplacer("\t", " ", "\n", " ", "\v", " ", "\f", " ")}
	t.Row(columns...)
	return t
}

// Row writes a row. What users have written cannot forge one, or disturb a
// terminal.
func (t Table) Row(cells ...string) {
	for i, cell := range cells {
		cells[i] = string(Readable([]byte(t.breaks.Replace(cell))))
	}
	fmt.Fprintln(t, strings.Join(cells, "\t"))
}
