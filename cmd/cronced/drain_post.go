package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/cronce/cronce"
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
	return d.answered(t.Once(ctx, row.Attempt))
}

// answered is what an answer says of the row: 2xx is sent; 408, 429 and 5xx may be tried again, when Retry-After says at the earliest; of what
// had no whole answer, or one that a gateway gave in place of the receiver, nobody knows. All else will not become better.
func (d *drain) answered(a request.Answer) error {
	err := errors.New(a.Message + lastLine(a.Output))
	switch s := a.Status; {
	case a.Doubt, slices.ContainsFunc(d.doubt, func(all request.Statuses) bool { return all.First <= s && s <= all.Last }):
		return rows.InDoubt(err)
	case s >= 200 && s <= 299:
		return nil
	case s == 0, s == 408, s == 429, s >= 500:
		return rows.RetryAfter(a.After, err)
	}
	return rows.Permanent(err)
}
