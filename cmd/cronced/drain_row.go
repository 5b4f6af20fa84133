package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cronce/cronce/internal/cli"
	"github.com/cronce/cronce/rows"
)

// rowKey is a row's idempotency key, the same for each attempt on each host: the table's name and the key's values, as
// notices/42. Whoever takes requests keeps it: it must never change between releases.
func rowKey(table string, key []any) string {
	text := url.PathEscape(table)
	for _, k := range key {
		value, _ := rowText(k)
		text += "/" + url.PathEscape(value)
	}
	return text
}

// field is a column of a row.
type field struct {
	name  string
	value any
}

// fields are the columns that the work gets, those of the key first.
func fields(t rows.Table, row rows.Row) (all []field) {
	for i, name := range t.Key {
		all = append(all, field{name, row.Key[i]})
	}
	for i, name := range t.Read {
		if !slices.Contains(t.Key, name) {
			all = append(all, field{name, row.Values[i]})
		}
	}
	return all
}

// rowJSON is a row as a JSON object of one line, in the order of its columns. Times are RFC 3339 in UTC where the driver gives times, bytes
// that are no text are base64.
func rowJSON(all []field) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := putJSON(&b, f.name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := putJSON(&b, jsonValue(f.value)); err != nil {
			return nil, fmt.Errorf("column %s: %w", f.name, err)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// putJSON writes a value as people write it, with < and & as they are.
func putJSON(b *bytes.Buffer, value any) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	b.Truncate(len(bytes.TrimRight(b.Bytes(), "\n")))
	return err
}

// jsonValue is what of a driver's values JSON would write otherwise.
func jsonValue(value any) any {
	switch v := value.(type) {
	case []byte:
		if utf8.Valid(v) {
			return string(v)
		}
	case string:
		if !utf8.ValidString(v) {
			return []byte(v)
		}
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) { // which JSON has not
			return fmt.Sprint(v)
		}
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	}
	return value
}

// rowText is a value as text; ok is false for NULL.
func rowText(value any) (text string, ok bool) {
	switch v := jsonValue(value).(type) {
	case nil:
		return "", false
	case string:
		return v, true
	case []byte:
		return string(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	default:
		return fmt.Sprint(v), true
	}
}

// maxVariable bounds a variable: Linux takes no string of 128 KiB. maxVariables bounds all of a row: it takes 2 MiB of environment and
// arguments, and none that is larger can be started.
const (
	maxVariable  = 100 << 10
	maxVariables = 1 << 20
)

// rowEnvironment is this program's own environment, without what is not for the command, and with the row: CRONCE_ROW_KEY,
// CRONCE_ROW_ATTEMPT, and CRONCE_ROW_ and the column's name in upper case. NULL is unset, as is
// what cannot be in an environment; standard input has all.
func rowEnvironment(key string, attempt int, all []field) []string {
	env := slices.DeleteFunc(cli.CommandEnvironment(os.Environ()), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return name == databaseVariable || name == databasePassword || strings.HasPrefix(name, rowPrefix)
	})
	env = append(env, rowPrefix+"KEY="+key, rowPrefix+"ATTEMPT="+strconv.Itoa(attempt))
	var row []string
	size := 0
	for _, f := range all {
		name := rowPrefix + variable(f.name)
		text, ok := rowText(f.value)
		if ok && name != rowPrefix+"KEY" && name != rowPrefix+"ATTEMPT" && len(text) < maxVariable && !strings.ContainsRune(text, 0) {
			row = append(row, name+"="+text)
			size += len(name) + len(text)
		}
	}
	for size > maxVariables {
		longest := 0
		for i := range row {
			if len(row[i]) > len(row[longest]) {
				longest = i
			}
		}
		size -= len(row[longest])
		row = slices.Delete(row, longest, longest+1)
	}
	return append(env, row...)
}

const rowPrefix = "CRONCE_ROW_"

// variable is a column's name as a shell takes it.
func variable(column string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, strings.ToUpper(column))
}
