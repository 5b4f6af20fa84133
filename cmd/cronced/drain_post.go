package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/request"
	"github.com/cronce/cronce/rows"
)

// postRow sends a row as the JSON body of a request, once.
func (d *drain) postRow(ctx context.Context, row rows.Row) error {
	body, err := rowJSON(fields(d.drainOptions.table, row))
	if err != nil {
		return rows.Permanent(err)
	}
	r := *d.post
	r.Body = string(body)
	if !slices.ContainsFunc(r.Headers, func(h request.Header) bool { return strings.EqualFold(h.Name, "Content-Type") }) {
		r.Headers = append(slices.Clone(r.Headers), request.Header{Name: "Content-Type", Value: "application/json"})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.ending, func() { cancel(errors.New("ended by a second signal")) })()
	t := request.Task{
		Request: r, Key: rowKey(d.drainOptions.table.Name, row.Key), Run: cronce.Run{Job: d.name(), ID: d.runID, Fence: d.options.Fence},
	}
	a := t.Once(ctx, row.Attempt)
	err = d.answered(a)
	d.brake.met(refusal(a), err)
	return err
}

// refusal is the kind of an answer that may be everybody's: of the way there, not of the row.
func refusal(a request.Answer) string {
	switch s := a.Status; {
	case a.Doubt:
		return "no answer"
	case s == 0:
		return "not sent"
	case s >= 300 && s <= 399, s == 401, s == 403, s == 404, s == 405, s == 407, s == 429, s >= 500:
		return strconv.Itoa(s)
	}
	return ""
}

// beginning is the first that an answer says, to stand behind a message.
func beginning(output []byte) string {
	text := strings.Join(strings.Fields(string(cli.Readable(output))), " ")
	if text == "" {
		return ""
	}
	return ": " + strings.ToValidUTF8(text[:min(len(text), maxBeginning)], "")
}

// maxBeginning bounds what is kept of an answer as a row's error.
const maxBeginning = 200

// answered is what an answer says of the row: 2xx is sent; 408, 429 and 5xx may be tried again, when Retry-After says at the earliest, and what
// was not sent, or not let in (401, 407), has had no attempt; of what
// had no whole answer, or one that a gateway gave in place of the receiver, nobody knows. All else will not become better.
func (d *drain) answered(a request.Answer) error {
	err := errors.New(a.Message + beginning(a.Output))
	switch s := a.Status; {
	case a.Doubt, slices.ContainsFunc(d.doubt, func(all request.Statuses) bool { return all.First <= s && s <= all.Last }):
		return rows.InDoubt(err)
	case s >= 200 && s <= 299:
		return nil
	case s == 0, s == 401, s == 407: // it was not taken, whatever it is
		return rows.Untried(err)
	case s == 408, s == 429, s >= 500:
		return rows.RetryAfter(a.After, err)
	}
	return rows.Permanent(err)
}
