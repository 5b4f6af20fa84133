package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cronce/cronce/internal/keys"
	"github.com/cronce/cronce/request"
)

// httpKeys are the keys of an HTTP request, in the order to show them.
var httpKeys = keys.Names(keys.HTTP)

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

// http reads the request that is a job's work.
func (d *decoder) http(n *node, job string) *request.Request {
	where := fmt.Sprintf("job %q: http", job)
	if !d.is(n, isMapping, where, "url: https://…") {
		return nil
	}
	r := &request.Request{}
	has := map[string]pair{}
	for _, p := range n.pairs {
		has[p.key] = p
		switch p.key {
		case "method":
			if text, ok := d.text(p.value, p.key); ok {
				r.Method = text
				if known := suggest(text, methods); !slices.Contains(methods, text) {
					hint := strings.Join(methods, ", ")
					if known != "" {
						hint = known + " is meant?"
					}
					d.fail(p.value.place, nil, "method: %q is no method: %s", text, hint)
				}
			}
		case "url":
			if text, ok := d.text(p.value, p.key); ok {
				r.URL = text
				if err := request.CheckURL(text); err != nil {
					d.failSecretly(p.value.place, "url: %v", err)
				}
			}
		case "url-from-file":
			r.URLFile = d.path(p.key, p)
		case "headers", "headers-from-files":
			d.headers(r, p)
		case "body":
			r.Body, _ = d.text(p.value, p.key)
		case "body-file":
			r.BodyFile = d.path(p.key, p)
		case "success":
			r.Success = d.success(p.value)
		case "idempotent":
			if p.value.kind == isBool && p.value.bad == "" {
				r.Idempotent = strings.EqualFold(p.value.text, "true")
			} else if text, ok := d.text(p.value, p.key); ok {
				d.fail(p.value.place, nil, "idempotent: true or false is expected, not %q", text)
			}
		default:
			d.unknown(p, where, httpKeys)
		}
	}
	for _, two := range [][2]string{{"url", "url-from-file"}, {"body", "body-file"}} {
		_, one := has[two[0]]
		if other, both := has[two[1]]; one && both {
			d.fail(other.at, nil, "%s: %s and %s contradict each other", where, two[0], two[1])
		} else if !one && !both && two[0] == "url" {
			d.fail(n.place, nil, "%s: 'url:' is expected", where)
		}
	}
	return r
}

// path reads the name of another file, which that key takes.
func (d *decoder) path(what string, p pair) string {
	text, ok := d.text(p.value, p.key)
	if ok && text == "" {
		d.fail(p.value.place, nil, "%s: a file is expected", p.key)
	}
	path := d.beside(text)
	if ok && text != "" {
		d.file.named = append(d.file.named, named{p.value.place, what, text, path})
	}
	return path
}

// headers reads headers whose values stand here, or in files.
func (d *decoder) headers(r *request.Request, p pair) {
	if !d.is(p.value, isMapping, p.key, "Name: value") {
		return
	}
	for _, q := range p.value.pairs {
		if q.value.bad == "" {
			if err := request.CheckHeader(q.key); err != nil {
				d.fail(q.at, nil, "%s: %v", p.key, err)
				continue
			}
			for _, h := range r.Headers {
				if strings.EqualFold(h.Name, q.key) {
					d.fail(q.at, nil, "%s: header %s is there twice", p.key, q.key)
				}
			}
		}
		h := request.Header{Name: q.key}
		switch {
		case p.key == "headers-from-files":
			h.File = d.path(p.key, q)
		case request.IsSecret(q.key):
			d.failSecretly(q.at, "headers: a secret does not belong here: put the value of %s into a file, and name that in headers-from-files", q.key)
		default:
			h.Value, _ = d.text(q.value, q.key)
			if err := request.CheckValue(h.Value); err != nil {
				d.fail(q.value.place, nil, "header %s: %v", q.key, err)
			}
		}
		r.Headers = append(r.Headers, h)
	}
}

// success reads which statuses are a success: one, or a list.
func (d *decoder) success(n *node) (all []request.Statuses) {
	items := []*node{n}
	if n.kind == isList && n.bad == "" {
		items = n.items
	}
	if len(items) == 0 {
		d.fail(n.place, nil, "success: no status would be one: a list as [2xx, 304] is expected")
	}
	for _, item := range items {
		text, ok := d.text(item, "success")
		if !ok {
			continue
		}
		s, err := request.ParseStatuses(text)
		if err != nil {
			d.fail(item.place, nil, "success: %v", err)
		}
		all = append(all, s)
	}
	return all
}
