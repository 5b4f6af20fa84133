package main

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/cronce/cronce"
)

// events are the words that a line begins with, where it is about a run or a
// tick; output is what a job prints.
var events = []string{"started", "succeeded", "failed", "timed_out", "cancelled", "lost", "skipped", "loaded",
	"MISSED", "PROBLEM", "NOT RUN", "NOT LOADED", "DROPPED"}

// jsonLine is a line for programs that collect logs: an object with the time,
// the job (serve itself is "serve"), what happened and the text.
func jsonLine(at time.Time, job, text string) string {
	entry := struct {
		Time  string `json:"time"`
		Job   string `json:"job"`
		Event string `json:"event"`
		Msg   string `json:"msg"`
	}{cronce.Stamp(at), job, "serve", text}
	if printed, ok := strings.CutPrefix(text, "| "); ok {
		entry.Event, entry.Msg = "output", printed
	} else if i := slices.IndexFunc(events, func(e string) bool { return strings.HasPrefix(text, e+" ") }); i >= 0 {
		entry.Event = events[i]
		entry.Msg = strings.TrimLeft(text[len(entry.Event):], " ")
	}
	b, err := json.Marshal(entry)
	if err != nil {
		return text + "\n" // it is a struct of strings
	}
	return string(b) + "\n"
}
