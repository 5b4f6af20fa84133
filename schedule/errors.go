package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Reasons that a caller may want to tell apart; a [ParseError] wraps them.
var (
	// ErrReboot says that the schedule is @reboot, which is an event and not a
	// time: it has no ticks.
	ErrReboot = errors.New("@reboot has no ticks")

	// ErrNever says that the schedule, or one of its alternatives, names days
	// that the calendar does not have, such as the 31st of February.
	ErrNever = errors.New("can never fire")

	// ErrNoName says that the schedule uses H, and Options.Name is empty.
	ErrNoName = errors.New("a job's name is needed for H")
)

// A ParseError says what is wrong with a schedule, and where.
type ParseError struct {
	Expr    string // the whole schedule, as given
	Field   string // "second", "minute", "hour", "day-of-month", "month" or "day-of-week"; empty if it is about no single field
	Offset  int    // where in Expr the trouble starts, in bytes
	Got     string // the text at Offset that cannot stand there; may be empty
	Want    string // what can, such as "0-59"; may be empty
	Problem string // what is wrong, as a sentence: "61 is not in 0-59"
	Hint    string // how to mend it; may be empty
	Err     error  // ErrReboot, ErrNever, ErrNoName, or nil
}

// Error reads like
//
//	schedule "61 * * * *": minute field, character 1: 61 is not in 0-59
//
// where characters are counted from the start of the schedule, from 1.
func (e *ParseError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "schedule %q: ", e.Expr)
	if e.Field != "" {
		fmt.Fprintf(&b, "%s field, ", e.Field)
	}
	fmt.Fprintf(&b, "character %d: %s", utf8.RuneCountInString(e.Expr[:min(e.Offset, len(e.Expr))])+1, e.Problem)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// show returns text as it can stand in a message: as it is if it can be
// printed, quoted if not.
func show(text string) string {
	for _, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return strconv.Quote(text)
		}
	}
	return text
}

// Unwrap returns the reason, if it is one of those that have a name.
func (e *ParseError) Unwrap() error { return e.Err }
