package schedule

import (
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzParse: whatever the text, there is a schedule that can be written and
// read again, or an error that points into the text.
func FuzzParse(f *testing.F) {
	for _, expr := range []string{
		"30 2 * * *", "*/15 8-18/2 1,15 jan-MAR,Dec MON-FRI", "*/5 * * * * *", "H H(0-7)/2 H * H",
		"0 0 L,LW,L-3,L-3W,15W * *", "0 0 * * FRIL,5L,MON#2,7", "@daily", "@hourly | @every 90s|0 12 * * 0-7",
		"@reboot", "@every 1h 30m", "61 * * * *", "0 0 ? * MON", "30 2 31 2 *", "10-5/0 * * * *", "é | \xff", " \t",
	} {
		f.Add(expr, "job", uint8(ByCount))
	}
	f.Fuzz(func(t *testing.T, expr, name string, seconds uint8) {
		o := Options{Name: name, Seconds: Seconds(seconds % 3)}
		s, err := Parse(expr, o)
		if err != nil {
			var e *ParseError
			switch {
			case s != nil:
				t.Errorf("%q: a schedule, and %v", expr, err)
			case !errors.As(err, &e):
				t.Errorf("%q: %T", expr, err)
			case e.Expr != expr, e.Offset < 0, !strings.HasPrefix(expr[e.Offset:], e.Got), e.Problem == "":
				t.Errorf("%q: %#v", expr, e)
			case strings.ContainsAny(err.Error(), "\n\x00\x1b") || !utf8.ValidString(err.Error()):
				t.Errorf("%q: the message cannot be printed: %q", expr, err.Error())
			}
			return
		}
		again, err := Parse(s.String(), o)
		if err != nil {
			t.Fatalf("%q is written as %q: %v", expr, s, err)
		}
		if !reflect.DeepEqual(s, again) {
			t.Errorf("%q is written as %q, which is another schedule", expr, s)
		}
		if s.Next(time.Unix(-1, 0)).IsZero() {
			t.Errorf("%q never fires", expr)
		}
	})
}

// FuzzNextPrev compares a schedule with the oracle at an instant. If expr is
// none, the schedule is made from the choices, and so is the instant.
func FuzzNextPrev(f *testing.F) {
	for i, expr := range []string{
		"30 2 * * *", "*/15 8-18/2 1,15 jan-MAR,Dec MON-FRI", "*/5 * * * * *", "H H(0-7)/2 H * H",
		"0 0 L,LW,L-3,15W * *", "0 0 * * FRIL,5L,MON#2,7", "0 */2 * * * | @every 7m", "0 0 29 2 *", "",
	} {
		f.Add(expr, uint8(i), []byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	}
	all := zones()
	changes := make([][]int64, len(all))
	for i, name := range all {
		changes[i] = changesOf(mustZone(f, name))
	}
	f.Fuzz(func(t *testing.T, expr string, zone uint8, choices []byte) {
		choose := func(n int) int {
			var b [4]byte
			choices = choices[copy(b[:], choices):]
			return int(binary.LittleEndian.Uint32(b[:])) % n
		}
		i := int(zone) % len(all)
		o := Options{Zone: mustZone(t, all[i]), Name: "job"}
		s, err := Parse(expr, o)
		if err != nil {
			expr = randomExpr(choose)
			if s, err = Parse(expr, o); errors.Is(err, ErrNever) {
				return
			} else if err != nil {
				t.Fatalf("%q: %v", expr, err)
			}
		}
		if len(s.parts) > 4 {
			return // the oracle would take its time
		}
		checkAround(t, s, newOracle(s.String(), o), randomTime(choose, changes[i]))
	})
}
