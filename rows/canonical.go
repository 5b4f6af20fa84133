package rows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Canonical is one text for values that mean the same, for [MeterOptions]: JSON objects and arrays are written without
// spaces and with their keys in order, line ends are \n, times are UTC. Different values, and different numbers of them,
// give different texts.
func Canonical(values ...any) string {
	var b strings.Builder
	for _, v := range values {
		kind, text := canonical(v)
		fmt.Fprintf(&b, "%s%d:%s", kind, len(text), text)
	}
	return b.String()
}

func canonical(v any) (kind, text string) {
	switch v := v.(type) {
	case nil:
		return "0", ""
	case string:
		return canonicalText(v)
	case []byte:
		return canonicalText(string(v))
	case time.Time:
		return "t", v.UTC().Format(time.RFC3339Nano)
	}
	return canonicalText(fmt.Sprint(v))
}

func canonicalText(text string) (kind, canonical string) {
	trimmed := strings.TrimSpace(text)
	if strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") {
		d := json.NewDecoder(strings.NewReader(trimmed))
		d.UseNumber() // 1.0 and 1 stay two texts, and no digit is lost
		var value any
		if d.Decode(&value) == nil && !d.More() {
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			if e.Encode(value) == nil {
				return "j", strings.TrimSuffix(b.String(), "\n")
			}
		}
	}
	return "s", strings.ReplaceAll(text, "\r\n", "\n")
}
