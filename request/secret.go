package request

import (
	"bytes"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// guises are the forms in which a receiver may show a secret that it was sent:
// as it is, with other blanks, and in quotes, JSON, HTML or a URL.
func guises(secret string) []string {
	all := []string{secret, strings.Join(strings.Fields(secret), " "), strings.TrimSpace(secret),
		inQuotes(strconv.Quote(secret)), inQuotes(strconv.QuoteToASCII(secret)), html.EscapeString(secret),
		url.QueryEscape(secret), url.PathEscape(secret)}
	for _, escapeHTML := range []bool{false, true} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(escapeHTML)
		if e.Encode(secret) == nil {
			all = append(all, inQuotes(strings.TrimSpace(b.String())))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func inQuotes(quoted string) string { return quoted[1 : len(quoted)-1] }

// partsOfURL are what a receiver may show of a secret URL: all behind the host,
// path and query, and what in those is long enough to be a secret by itself.
func partsOfURL(u *url.URL) []string {
	all := []string{u.String(), u.RequestURI(), u.EscapedPath(), u.Path, u.RawQuery}
	short := func(part string) bool { return len(part) < leastSecret }
	segments := append(strings.Split(u.EscapedPath(), "/"), strings.Split(u.Path, "/")...)
	for pair := range strings.FieldsFuncSeq(u.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		_, value, _ := strings.Cut(pair, "=")
		segments = append(segments, pair, value)
		if plain, err := url.QueryUnescape(value); err == nil {
			segments = append(segments, plain)
		}
	}
	return slices.DeleteFunc(append(all, segments...), short)
}
