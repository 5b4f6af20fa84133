package main

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/cronce/cronce"
)

// jsonLine is a line for programs that collect logs: an object with the time,
// the job (serve itself is "serve"), what happened, which is the line's first
// column, and the text. output is what a job prints. user is set under serve
// --system.
func jsonLine(at time.Time, user, job, text string) string {
	entry := struct {
		Time  string `json:"time"`
		User  string `json:"user,omitempty"`
		Job   string `json:"job"`
		Event string `json:"event"`
		Msg   string `json:"msg"`
	}{cronce.Stamp(at), user, job, "serve", text}
	if printed, ok := strings.CutPrefix(text, "| "); ok {
		entry.Event, entry.Msg = "output", printed
	} else if word, rest, ok := strings.Cut(text, "  "); ok && len(word) <= len("succeeded") {
		entry.Event, entry.Msg = word, strings.TrimLeft(rest, " ")
	} else if rest, ok := strings.CutPrefix(text, "NOT LOADED "); ok { // it fills the column
		entry.Event, entry.Msg = "NOT LOADED", rest
	}
	b, err := json.Marshal(entry)
	if err != nil {
		return text + "\n" // it is a struct of strings
	}
	return string(b) + "\n"
}
