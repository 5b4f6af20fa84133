package localstore

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cronce/cronce"
)

// full is a record with every field set, of every type in it.
func full() record {
	var n int64
	var fill func(v reflect.Value, depth int)
	fill = func(v reflect.Value, depth int) {
		n++
		switch at, isTime := v.Addr().Interface().(*time.Time); {
		case isTime:
			*at = time.Date(2026, 12, 31, 23, 59, 59, int(n)*1000, time.UTC)
		case v.Kind() == reflect.String:
			v.SetString("text " + strings.Repeat("é", int(n%3)))
		case v.Kind() == reflect.Bool:
			v.SetBool(true)
		case v.CanInt():
			v.SetInt(n)
		case v.CanUint():
			v.SetUint(1<<64 - 1)
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				if depth > 0 && v.Type().Field(i).Tag.Get("json") != "-" {
					fill(v.Field(i), depth)
				}
			}
		case v.Kind() == reflect.Pointer && depth > 1:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), depth-1)
		case v.Kind() == reflect.Slice && depth > 1:
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fill(v.Index(0), depth-1)
			fill(v.Index(1), depth-1)
		}
	}
	var r record
	fill(reflect.ValueOf(&r).Elem(), 4)
	return r
}

func asJSON(t *testing.T, r record) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Every field that a record has is known here too, and none needs
// encoding/json: else a claim would be slow and nobody would notice.
func TestLineKnowsEveryField(t *testing.T) {
	r := full()
	want := asJSON(t, r)
	l := &line{writing: true}
	if r.element(l); l.foreign || string(l.out)+"\n" != want {
		n := 0
		for n < min(len(l.out), len(want)) && l.out[n] == want[n] {
			n++
		}
		t.Errorf("written (foreign: %v) …%.100s, want …%.100s", l.foreign, l.out[n:], want[n:])
	}
	var got record
	l = &line{in: strings.TrimSpace(want)}
	if got.element(l); l.foreign || l.in != "" {
		t.Errorf("not read (foreign: %v), left: %.100s", l.foreign, l.in)
	}
	if !reflect.DeepEqual(got, r) {
		t.Errorf("read as %+v, want %+v", got, r)
	}
}

// FuzzLine defends that lines are read and written as encoding/json does.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{
		`{"event":"start","at":"2026-11-30T15:00:00.123456Z","id":"0193","tick":"2026-11-30T15:00:00Z","slot":1,"attempt":1,"fence":1796051000000000,"holder":{"host":"web1","pid":7,"user":"ann","via":"run"},"lock":{"file":"job.lock","dev":65024,"ino":18446744073709551615},"proc":{"pid":7,"start":123,"boot":"b"}}`,
		`{"event":"end","at":"2026-11-30T15:00:00+01:00","id":"x","outcome":"failed","exit":1,"message":"say \"no\" <&> \u2028 \u00e9 é"}`,
		`{"event":"end","at":"2026-11-30T15:00:00Z","exit":-1}`, `{"event":"end","exit":01}`, `{"event":"end","exit":1e2}`,
		`{"event":"end","exit":99999999999999999999}`, `{"event":"end","output":9223372036854775808}`,
		`{"event":"x","orphans":false}`, `{"orphans":}`, `{"event":"x","orphans":true,"orphans":false}`, `{"event":"x","runs":[]}`, `{"event":"x","runs":["a","b"],}`,
		`{"event":"x","at":null,"lock":null}`, `{"at":"2026-11-30T15:00:00Z","event":"x"}`, `{"Event":"x"}`, `{"event":"x","new":{"a":[1]}}`,
		`{"event":"x","at":"2026-11-30T5:00:00Z"}`, `{"event":"x","tick":"2026-11-30T15:00:60Z"}`, `{ "event" : "x" }`, `{"event":"x"}}`, `{"event":"x"`, `{}`, `{,"event":"x"}`,
		`{"event":"x","holder":{}}`, `{"event":"x","snapshot":{"open":[{"event":"start","lock":{}},{}],"decided":[{"from":"0001-01-01T00:00:00Z"}]}}`,
		"{\"event\":\"\x7f\xff\"}", "{\"event\":\"\ufffd\"}", "{\"event\":\"\t\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got, want record
		err, wantErr := got.decode(&line{}, string(text)), json.Unmarshal(text, &want)
		if (err == nil) != (wantErr == nil) || !reflect.DeepEqual(got, want) {
			t.Fatalf("read %+v (%v), encoding/json reads %+v (%v)", got, err, want, wantErr)
		}
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := got.encode(&b); err != nil {
			return // as of a year with five digits: encoding/json has said so
		}
		if b.String() != asJSON(t, want) {
			t.Fatalf("written %.2000s, encoding/json writes %.2000s", b.String(), asJSON(t, want))
		}
	})
}

// BenchmarkReadSegment is most of what a claim reads: a segment that is full.
func BenchmarkReadSegment(b *testing.B) {
	at, me := time.Date(2026, 12, 31, 23, 59, 0, 123456000, time.UTC), self()
	records := []record{{Event: evSegment, At: at, Format: formatNumber, Segment: 1, Job: "b", Snapshot: &snapshot{Fence: 1}}}
	for range 70 {
		at = at.Add(time.Minute)
		id := cronce.NewRunID()
		records = append(records,
			record{Event: evStart, At: at, ID: id, Tick: at.Truncate(time.Second), Slot: 1, Attempt: 1, Fence: at.UnixMicro(),
				Holder: cronce.Holder{Host: "web1", PID: me.PID, User: "root", Via: "run"}, Lock: lockID{File: jobLock, Dev: 65024, Ino: 123456}, Proc: me},
			record{Event: evEnd, At: at, ID: id, Outcome: cronce.Succeeded})
	}
	var text bytes.Buffer
	for _, r := range records {
		if err := r.encode(&text); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		recs, _, err := parseLines(text.Bytes(), true)
		if err != nil {
			b.Fatal(err)
		}
		st := newState("b")
		for _, r := range recs {
			st.apply(&r)
		}
	}
}
