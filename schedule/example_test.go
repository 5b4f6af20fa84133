package schedule_test

import (
	"fmt"
	"time"
	_ "time/tzdata"

	"github.com/cronce/cronce/schedule"
)

func ExampleParse() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	s, err := schedule.Parse("30  2 * * *  | 0 12 * * SUN#1", schedule.Options{Zone: berlin})
	if err != nil {
		panic(err)
	}
	fmt.Println(s, "in", s.Zone())

	_, err = schedule.Parse("30 2 31 2 *", schedule.Options{})
	fmt.Println(err)
	// Output:
	// 30 2 * * * | 0 12 * * SUN#1 in Europe/Berlin
	// schedule "30 2 31 2 *": character 6: 31 2 * can never fire; the calendar has no such day
}

// In New York the clock went from 2:00 to 3:00 on 8 March 2026. What was due
// at 2:30 is due as soon as that time is past.
func ExampleSchedule_Next() {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		panic(err)
	}
	s, err := schedule.Parse("30 2 * * *", schedule.Options{Zone: newYork})
	if err != nil {
		panic(err)
	}
	t := time.Date(2026, 3, 7, 0, 0, 0, 0, newYork)
	for range 3 {
		t = s.Next(t)
		fmt.Println(t)
	}
	// Output:
	// 2026-03-07 02:30:00 -0500 EST
	// 2026-03-08 03:00:00 -0400 EDT
	// 2026-03-09 02:30:00 -0400 EDT
}

// A job with H has its own minute, the same on every host.
func ExampleOptions_name() {
	for _, name := range []string{"backup", "report"} {
		s, err := schedule.Parse("H H * * *", schedule.Options{Name: name})
		if err != nil {
			panic(err)
		}
		fmt.Println(name, s.Next(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)).Format("15:04"))
	}
	// Output:
	// backup 12:38
	// report 06:32
}
