package schedule

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// zones are one or more of every kind that the clock-change rules know.
func zones() []string {
	return []string{
		"UTC", "Asia/Kolkata", // no changes
		"America/New_York", "Europe/London", "Asia/Seoul", "Europe/Dublin", // an hour
		"Australia/Lord_Howe", "Antarctica/Troll", // half an hour, two hours
		"America/Sao_Paulo", "Asia/Beirut", "Africa/Cairo", "America/Havana", // at midnight
		"Pacific/Apia", "Pacific/Kwajalein", "Pacific/Kiritimati", // a day that never was
		"Antarctica/Vostok",                               // seven hours
		"Africa/Casablanca", "Europe/Moscow", "Asia/Gaza", // changed their minds
		"Africa/Monrovia",                             // seconds
		"America/Metlakatla", "America/Ciudad_Juarez", // see periodAt
	}
}

// TestAgainstOracle compares schedules and instants chosen at random, half of
// them close to a change of the clock, with the oracle.
func TestAgainstOracle(t *testing.T) {
	const seed = 20240229
	for i, name := range zones() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone := mustZone(t, name)
			changes := changesOf(zone)
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for range 40 {
				expr := randomExpr(r.IntN)
				o := Options{Zone: zone, Name: "job"}
				s, err := Parse(expr, o)
				if errors.Is(err, ErrNever) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				oracle := newOracle(expr, o)
				for range 2 {
					checkAround(t, s, oracle, randomTime(r.IntN, changes))
				}
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// randomTime chooses an instant from 1970 to 2100; changes are those of the
// zone.
func randomTime(choose func(int) int, changes []int64) time.Time {
	u := int64(choose(130*366)) * 86400
	if len(changes) == 0 || choose(2) == 0 {
		u += int64(choose(86400))
	} else {
		u = changes[choose(len(changes))]
		u += int64(choose(2*26*60)-26*60) * 60 / int64(1+choose(26))
		u += int64(choose(3) - 1)
	}
	return time.Unix(u, int64(choose(2)*choose(1e9)))
}

// changesOf returns when a zone's clock changed, from 1970 to 2100, and those
// of more than an hour many times over, for they are rare.
func changesOf(zone *time.Location) []int64 {
	var changes []int64
	p := periodAt(0, zone)
	for p.end < 130*366*86400 {
		q := periodAt(p.end, zone)
		switch jump := max(q.offset-p.offset, p.offset-q.offset); {
		case jump > 3600 || jump%1800 != 0:
			changes = append(changes, slices.Repeat([]int64{p.end}, 100)...)
		case jump != 0:
			changes = append(changes, p.end)
		}
		p = q
	}
	return changes
}

// randomExpr writes an expression, a macro, an @every or a union.
func randomExpr(choose func(int) int) string {
	switch choose(12) {
	case 3: // not 0, which a choose that has run out of choices gives for ever
		return randomExpr(choose) + " | " + randomExpr(choose)
	case 1:
		return []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}[choose(7)]
	case 2:
		return fmt.Sprintf("@every %ds", 1+choose(1+choose(100000)))
	}
	var fields []string
	for i, spec := range fieldSpecs() {
		if i == 0 && choose(4) > 0 {
			continue
		}
		n := 1
		if choose(3) == 0 {
			n += choose(3)
		}
		items := make([]string, n)
		for j := range items {
			items[j] = randomItem(choose, spec)
		}
		fields = append(fields, strings.Join(items, ","))
	}
	return strings.Join(fields, " ")
}

func randomItem(choose func(int) int, spec fieldSpec) string {
	value := func() (int, string) {
		v := spec.low + choose(spec.high-spec.low+1)
		if i := v - spec.low; i < len(spec.names) && choose(2) == 0 {
			return v, spec.names[i]
		}
		return v, fmt.Sprint(v)
	}
	between := func() string {
		low := spec.low + choose(spec.high-spec.low+1)
		return fmt.Sprintf("%d-%d", low, low+choose(spec.high-low+1))
	}
	step := func() string {
		if choose(2) == 0 {
			return ""
		}
		return fmt.Sprintf("/%d", 1+choose(spec.high))
	}
	_, v := value()
	calendar := spec.name == "day-of-month" || spec.name == "month" || spec.name == "day-of-week"
	switch choose(10) {
	case 0:
		return between() + step()
	case 1:
		return "H" + step()
	case 2:
		return "H(" + between() + ")" + step()
	case 3, 4, 5:
		switch {
		case spec.name == "day-of-month":
			return []string{"L", "LW", fmt.Sprintf("L-%d", 1+choose(30)), fmt.Sprintf("L-%dW", 1+choose(30)), v + "W"}[choose(5)]
		case spec.name == "day-of-week":
			return []string{v + "L", fmt.Sprintf("%s#%d", v, 1+choose(5))}[choose(2)]
		}
	case 6, 7, 8:
		if calendar || choose(3) == 0 {
			return "*" + step()
		}
	}
	return v
}
