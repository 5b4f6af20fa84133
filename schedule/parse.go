package schedule

import (
	"fmt"
	"strings"
	"time"
)

// Options are what the text of a schedule leaves open. The zero value is
// useful.
type Options struct {
	// Zone is where the wall clock hangs that the expression speaks of; nil is UTC.
	Zone *time.Location

	// Name is the job's name, from which H chooses its values. A schedule with
	// H and no name is an error.
	Name string

	// Seconds says whether an expression has a field for seconds in front.
	Seconds Seconds
}

// Seconds says whether an expression has a field for seconds, in front of the
// minutes.
type Seconds int

const (
	ByCount Seconds = iota // six fields have, five have not
	Never                  // five fields
	Always                 // six fields
)

// blanks separate fields.
const blanks = " \t\r\n"

// Parse reads a schedule: a cron expression of five fields (or six, with
// seconds in front), a macro such as @daily, "@every DURATION", or several of
// those joined by " | ", which is due when any of them is.
//
// Fields are read as Debian's cron does (entry.c of cron 3.0pl1), and beyond
// that know H, L, W and #; docs/schedules.md has the grammar. An error is a
// [*ParseError].
func Parse(expr string, o Options) (*Schedule, error) {
	s := &Schedule{zone: o.Zone}
	if s.zone == nil {
		s.zone = time.UTC
	}
	p := parser{expr: expr, options: o}
	var texts []string
	for start := 0; ; {
		end := len(expr)
		if i := strings.IndexByte(expr[start:], '|'); i >= 0 {
			end = start + i
		}
		words := p.split(start, end)
		part, err := p.part(words, end)
		if err != nil {
			return nil, err
		}
		s.parts = append(s.parts, part)
		texts = append(texts, join(words))
		if end == len(expr) {
			break
		}
		start = end + 1
	}
	s.text = strings.Join(texts, " | ")
	return s, nil
}

// macros are the names that Debian's cron knows, case and all.
func macro(name string) (expr string, ok bool) {
	switch name {
	case "@yearly", "@annually":
		return "0 0 1 1 *", true
	case "@monthly":
		return "0 0 1 * *", true
	case "@weekly":
		return "0 0 * * 0", true
	case "@daily", "@midnight":
		return "0 0 * * *", true
	case "@hourly":
		return "0 * * * *", true
	}
	return "", false
}

// A parser reads one schedule.
type parser struct {
	expr    string
	options Options
}

// A word is a piece of the schedule between blanks, and where it starts.
type word struct {
	text   string
	offset int
}

// split cuts the schedule's bytes [start, end) into words.
func (p *parser) split(start, end int) []word {
	var words []word
	for i := start; i < end; {
		if strings.IndexByte(blanks, p.expr[i]) >= 0 {
			i++
			continue
		}
		n := strings.IndexAny(p.expr[i:end], blanks)
		if n < 0 {
			n = end - i
		}
		words = append(words, word{p.expr[i : i+n], i})
		i += n
	}
	return words
}

func join(words []word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.text
	}
	return strings.Join(texts, " ")
}

// part reads one of the alternatives; end is where it ends.
func (p *parser) part(words []word, end int) (part, error) {
	if len(words) == 0 {
		e := p.fail(word{"", end}, "there is no schedule")
		if strings.Contains(p.expr, "|") {
			e.Problem = "there is no schedule on one side of |"
		}
		e.Want = "a cron expression, a macro or @every DURATION"
		return part{}, e
	}
	if strings.HasPrefix(words[0].text, "@") {
		return p.at(words)
	}
	return p.expression(words)
}

// at reads an alternative that starts with @.
func (p *parser) at(words []word) (part, error) {
	name := words[0]
	if name.text == "@every" {
		return p.everyDuration(words)
	}
	if name.text == "@reboot" {
		e := p.fail(name, ErrReboot.Error())
		e.Err = ErrReboot
		e.Hint = "it is a start of the machine, not a time"
		return part{}, e
	}
	expr, ok := macro(name.text)
	if !ok {
		e := p.fail(name, show(name.text)+" is not known")
		e.Want = "@yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly or @every DURATION"
		e.Hint = "known are " + e.Want
		lower := strings.ToLower(name.text)
		if _, ok := macro(lower); ok || lower == "@every" || lower == "@reboot" {
			e.Hint = "write " + lower
		}
		return part{}, e
	}
	if len(words) > 1 {
		e := p.fail(words[1], fmt.Sprintf("%s stands alone, but %s follows", name.text, show(words[1].text)))
		return part{}, e
	}
	inner := parser{expr: expr}
	return inner.expression(inner.split(0, len(expr)))
}

// everyDuration reads "@every DURATION".
func (p *parser) everyDuration(words []word) (part, error) {
	const want = "a whole number of seconds, such as 90s, 5m or 1h30m"
	fail := func(w word, problem, hint string) (part, error) {
		e := p.fail(w, problem)
		e.Want, e.Hint = want, hint
		return part{}, e
	}
	switch len(words) {
	case 1:
		w := words[0]
		return fail(word{"", w.offset + len(w.text)}, "@every needs a duration", "write "+want)
	case 2:
	default:
		return fail(words[2], fmt.Sprintf("@every takes one duration, but %s follows", show(words[2].text)),
			"write it without blanks, such as 1h30m")
	}
	w := words[1]
	d, err := time.ParseDuration(w.text)
	switch {
	case err != nil && allDigits(w.text):
		return fail(w, w.text+" has no unit", "write "+w.text+"s for seconds or "+w.text+"m for minutes")
	case err != nil:
		hint := "write " + want
		if strings.HasSuffix(w.text, "d") || strings.HasSuffix(w.text, "w") {
			hint = "the units are h, m and s: a day is 24h, counted from the epoch, whatever the zone's clock does"
		}
		return fail(w, show(w.text)+" is not a duration", hint)
	case d < time.Second:
		return fail(w, show(w.text)+" is less than a second", "")
	case d%time.Second != 0:
		return fail(w, show(w.text)+" is not a whole number of seconds", "")
	}
	return part{every: int64(d / time.Second)}, nil
}

// expression reads an alternative that is a cron expression.
func (p *parser) expression(words []word) (part, error) {
	if name, _, ok := strings.Cut(words[0].text, "="); ok && (name == "TZ" || name == "CRON_TZ") {
		e := p.fail(words[0], name+"= cannot stand here")
		e.Hint = "the time zone is set beside the schedule, not in it"
		return part{}, e
	}
	specs := fieldSpecs()
	seconds := p.options.Seconds == Always || p.options.Seconds == ByCount && len(words) == 6
	if !seconds {
		specs = specs[1:]
	}
	if len(words) != len(specs) {
		return part{}, p.wrongCount(words, specs)
	}

	var out part
	out.second = 1 // second 0, unless the field is there
	for i, spec := range specs {
		f := fieldParser{parser: p, spec: spec, word: words[i]}
		if err := f.parse(&out.fields); err != nil {
			return part{}, err
		}
		star := words[i].text[0] == '*'
		switch spec.name {
		case "minute", "hour":
			out.wild = out.wild || star
		case "day-of-month", "day-of-week":
			out.both = out.both || star
		}
	}
	if !out.canMatch() {
		first := words[len(words)-3] // day-of-month
		e := p.fail(first, join(words[len(words)-3:])+" "+ErrNever.Error())
		e.Got = p.expr[first.offset : words[len(words)-1].offset+len(words[len(words)-1].text)]
		e.Hint = "the calendar has no such day"
		e.Err = ErrNever
		return part{}, e
	}
	return out, nil
}

// wrongCount explains a number of fields that is not that of specs.
func (p *parser) wrongCount(words []word, specs []fieldSpec) error {
	names := make([]string, len(specs))
	for i, spec := range specs {
		names[i] = spec.name
	}
	last := words[len(words)-1]
	at := word{"", last.offset + len(last.text)}
	if len(words) > len(specs) {
		at = words[len(specs)]
	}
	e := p.fail(at, fmt.Sprintf("%s fields expected, got %s", number(len(specs)), number(len(words))))
	e.Want = strings.Join(names, " ")
	switch {
	case len(words) == 6 && p.options.Seconds == Never:
		e.Hint = "seconds are not switched on here"
	case len(words) == 7:
		e.Hint = "Quartz's seventh field, the year, is not supported"
	default:
		e.Hint = "they are " + e.Want
	}
	return e
}

// number writes small numbers as words.
func number(n int) string {
	words := [...]string{"none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}
	if n < len(words) {
		return words[n]
	}
	return fmt.Sprint(n)
}

// fail makes an error about the text w.
func (p *parser) fail(w word, problem string) *ParseError {
	return &ParseError{Expr: p.expr, Offset: w.offset, Got: w.text, Problem: problem}
}
