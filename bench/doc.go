// Package bench measures cronce's timetable beside other in-process
// schedulers: robfig/cron and gocron.
//
// Every scheduler gets the same work in the same program, compiled by the same
// compiler: n entries that fire every second, each starting a goroutine that
// notes the time. They are measured in turn, several rounds, each measurement
// in a process of its own so that nobody pays for another's garbage; the
// medians are shown.
//
// It also measures what `cronce run` takes in front of a short command, beside
// flock(1).
package bench
