package schedule

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A fieldSpec says what may stand in a field.
type fieldSpec struct {
	name      string
	low, high int
	hashHigh  int      // the highest value that H alone may choose
	names     []string // names of the values, from low on
}

// fieldSpecs returns the fields in their order, the optional one first.
func fieldSpecs() []fieldSpec {
	return []fieldSpec{
		{"second", 0, 59, 59, nil},
		{"minute", 0, 59, 59, nil},
		{"hour", 0, 23, 23, nil},
		{"day-of-month", 1, 31, 28, nil}, // H: a day that every month has
		{"month", 1, 12, 12, monthNames()},
		{"day-of-week", 0, 7, 6, weekdayNames()}, // 0 and 7 are Sunday
	}
}

func monthNames() []string {
	return []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
}

func weekdayNames() []string {
	return []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}
}

// A fieldParser reads one field, from left to right.
type fieldParser struct {
	*parser
	spec fieldSpec
	word word
	pos  int // in word.text

	set uint64 // the plain values
	out *fields
}

// parse reads the field into out.
//
//	field = item { "," item }
//	item  = ( "*" | value "-" value ) [ "/" step ]
//	      | value
//	      | "H" [ "(" value "-" value ")" ] [ "/" step ]
//	      | "L" [ "-" number ] [ "W" ] | number "W"     in day-of-month
//	      | value "L" | value "#" number                in day-of-week
func (f *fieldParser) parse(out *fields) error {
	f.out = out
	for {
		if err := f.item(); err != nil {
			return err
		}
		if f.pos == len(f.word.text) {
			break
		}
		if !f.eat(',') {
			return f.unexpected()
		}
	}
	switch f.spec.name {
	case "second":
		out.second = f.set
	case "minute":
		out.minute = f.set
	case "hour":
		out.hour = uint32(f.set)
	case "day-of-month":
		out.dom = uint32(f.set)
	case "month":
		out.month = uint16(f.set)
	case "day-of-week":
		out.dow = uint8(f.set&0x7f | f.set>>7)
	}
	return nil
}

// item reads one item of the list.
func (f *fieldParser) item() error {
	start := f.pos
	if f.eat('*') {
		step, err := f.step()
		if err != nil {
			return err
		}
		f.addRange(f.spec.low, f.spec.high, max(step, 1))
		return nil
	}
	text := f.alnum()
	switch {
	case text == "":
		return f.unexpected()
	case strings.EqualFold(text, "H"):
		return f.hash(start)
	case f.spec.name == "day-of-month" && strings.EqualFold(text, "L"):
		return f.lastDay(start)
	case f.spec.name == "day-of-month" && strings.EqualFold(text, "LW"):
		f.out.lastW |= 1
		return nil
	case f.spec.name == "day-of-month" && isNumberAnd(text, 'W'):
		v, err := f.value(text[:len(text)-1], start)
		if err != nil {
			return err
		}
		f.out.nearest |= 1 << v
		return nil
	case f.spec.name == "day-of-week" && len(text) > 1 && fold(text[len(text)-1]) == 'L':
		v, err := f.value(text[:len(text)-1], start)
		if err != nil {
			return err
		}
		f.out.dowLast |= 1 << (v % 7)
		return nil
	}

	low, err := f.value(text, start)
	if err != nil {
		return err
	}
	switch {
	case f.eat('-'):
		return f.rangeFrom(low, start)
	case f.spec.name == "day-of-week" && f.eat('#'):
		return f.nth(low)
	case f.next() == '/':
		e := f.fail(f.pos, "/", fmt.Sprintf("a step needs a range or * before it, not %s alone", text))
		rest, _, _ := strings.Cut(f.word.text[f.pos:], ",")
		e.Hint = "write " + show(fmt.Sprintf("%s-%d%s", text, f.spec.high, rest))
		return e
	}
	f.set |= 1 << low
	return nil
}

// rangeFrom reads what follows "low-".
func (f *fieldParser) rangeFrom(low, start int) error {
	at := f.pos
	text := f.alnum()
	if text == "" {
		return f.unexpected()
	}
	high, err := f.value(text, at)
	if err != nil {
		return err
	}
	if high < low {
		got := f.word.text[start:f.pos]
		e := f.fail(start, got, got+" runs backwards")
		low, _, _ := strings.Cut(got, "-")
		switch {
		case f.spec.name == "day-of-week" && high == 0:
			e.Hint = fmt.Sprintf("Sunday is 7 at the end of a range: write %s-7", low)
		default:
			e.Hint = fmt.Sprintf("write %s-%d,%d-%s", low, f.spec.high, f.spec.low, text)
			if f.spec.name == "day-of-week" {
				e.Hint = fmt.Sprintf("write %s-7,1-%s", low, text)
			}
		}
		return e
	}
	step, err := f.step()
	if err != nil {
		return err
	}
	f.addRange(low, high, max(step, 1))
	return nil
}

// hash reads what follows "H".
func (f *fieldParser) hash(start int) error {
	low, high := f.spec.low, f.spec.hashHigh
	if f.eat('(') {
		var ends [2]int
		for i, closing := range []byte{'-', ')'} {
			at := f.pos
			text := f.alnum()
			if text == "" {
				return f.unexpected()
			}
			v, err := f.value(text, at)
			if err != nil {
				return err
			}
			if ends[i] = v; !f.eat(closing) {
				return f.unexpected()
			}
		}
		low, high = ends[0], ends[1]
		if high < low {
			got := f.word.text[start:f.pos]
			return f.fail(start, got, got+" runs backwards")
		}
	}
	step, err := f.step()
	if err != nil {
		return err
	}
	if f.options.Name == "" {
		e := f.fail(start, f.word.text[start:f.pos], ErrNoName.Error())
		e.Hint = "give the job a name, or write the value"
		e.Err = ErrNoName
		return e
	}
	f.set |= hashed(spreadHash(f.options.Name, f.spec.name), low, high, step)
	return nil
}

// lastDay reads what follows "L" in the day-of-month field.
func (f *fieldParser) lastDay(start int) error {
	before := 0
	weekday := false
	if f.eat('-') {
		at := f.pos
		text := f.alnum()
		digits := text
		if isNumberAnd(text, 'W') {
			digits, weekday = text[:len(text)-1], true
		}
		n, ok := atoi(digits)
		if !ok || n < 1 || n > 30 {
			if text == "" {
				return f.unexpected()
			}
			e := f.fail(at, text, fmt.Sprintf("%s is not in 1-30", text))
			e.Want = "1-30"
			e.Hint = "L-3 is the third day before the month's last"
			return e
		}
		before = n
	}
	if weekday {
		f.out.lastW |= 1 << before
	} else {
		f.out.last |= 1 << before
	}
	return nil
}

// nth reads what follows "value#" in the day-of-week field.
func (f *fieldParser) nth(dow int) error {
	at := f.pos
	text := f.alnum()
	if text == "" {
		return f.unexpected()
	}
	n, ok := atoi(text)
	if !ok || n < 1 || n > 5 {
		e := f.fail(at, text, fmt.Sprintf("%s is not in 1-5", text))
		e.Want = "1-5"
		e.Hint = "MON#2 is the month's second Monday, MONL the last"
		return e
	}
	f.out.dowNth[n] |= 1 << (dow % 7)
	return nil
}

// step reads "/" and a step, if there is one; 0 means there is none.
func (f *fieldParser) step() (int, error) {
	if !f.eat('/') {
		return 0, nil
	}
	at := f.pos
	text := f.alnum()
	if text == "" {
		return 0, f.unexpected()
	}
	n, ok := atoi(text)
	if !ok || n < 1 {
		e := f.fail(at, text, fmt.Sprintf("a step is a number from 1, not %s", text))
		e.Want = "a number from 1"
		return 0, e
	}
	return n, nil
}

func (f *fieldParser) addRange(low, high, step int) {
	for v := low; v <= high; v += step {
		f.set |= 1 << v
	}
}

// value reads a number or a name of the field's, which stands at pos.
func (f *fieldParser) value(text string, pos int) (int, error) {
	for i, name := range f.spec.names {
		if strings.EqualFold(name, text) {
			return f.spec.low + i, nil
		}
	}
	v, ok := atoi(text)
	if ok && v >= f.spec.low && v <= f.spec.high {
		return v, nil
	}
	e := f.fail(pos, text, fmt.Sprintf("%s is not in %d-%d", text, f.spec.low, f.spec.high))
	e.Want = fmt.Sprintf("%d-%d", f.spec.low, f.spec.high)
	if f.spec.names != nil {
		e.Want += fmt.Sprintf(" or %s-%s", f.spec.names[0], f.spec.names[len(f.spec.names)-1])
	}
	if !ok {
		e.Problem = fmt.Sprintf("%s is not %s", text, e.Want)
		e.Hint = f.hintFor(text)
	}
	return 0, e
}

// hintFor guesses what was meant by a word that the field does not know.
func (f *fieldParser) hintFor(text string) string {
	for _, spec := range fieldSpecs() {
		for _, name := range spec.names {
			if len(text) < len(name) || !strings.EqualFold(text[:len(name)], name) {
				continue
			}
			if spec.name != f.spec.name {
				return fmt.Sprintf("%s belongs in the %s field", name, spec.name)
			}
			return "names have three letters: " + name
		}
	}
	switch upper := strings.ToUpper(text); {
	case upper == "L" && f.spec.name == "day-of-week":
		return "L here needs a day before it, such as FRIL for the last Friday"
	case f.spec.name == "day-of-month" && isNumberAnd(text, 'W'):
		return "W stands after one day, not after a range"
	case upper == "L" || upper == "LW" || isNumberAnd(text, 'W'):
		return "L and W belong in the day-of-month field"
	case isNumberAnd(text, 'L'):
		return "a day with L belongs in the day-of-week field"
	}
	return ""
}

// unexpected makes an error about what stands at pos.
func (f *fieldParser) unexpected() error {
	rest := f.word.text[f.pos:]
	if rest == "" {
		e := f.fail(f.pos, "", fmt.Sprintf("%s ends too soon", show(f.word.text)))
		e.Want = "a value"
		return e
	}
	_, size := utf8.DecodeRuneInString(rest)
	got := rest[:size]
	e := f.fail(f.pos, got, fmt.Sprintf("%s cannot stand here", show(got)))
	switch got {
	case "?":
		e.Hint = "write * where Quartz has ?, and mind that Quartz counts days of the week from SUN=1"
	case "#":
		e.Hint = "# belongs in the day-of-week field, after one day: MON#2"
	case "~":
		e.Hint = "for a value chosen by the job's name write H or H(0-29)"
	}
	return e
}

// next returns the byte at pos, or 0 at the end.
func (f *fieldParser) next() byte {
	if f.pos < len(f.word.text) {
		return f.word.text[f.pos]
	}
	return 0
}

// eat steps over c, if it is what comes next.
func (f *fieldParser) eat(c byte) bool {
	if f.next() != c {
		return false
	}
	f.pos++
	return true
}

// alnum steps over letters and digits, and returns them.
func (f *fieldParser) alnum() string {
	start := f.pos
	for c := f.next(); '0' <= c && c <= '9' || 'A' <= fold(c) && fold(c) <= 'Z'; c = f.next() {
		f.pos++
	}
	return f.word.text[start:f.pos]
}

// fail makes an error about got, which stands at pos.
func (f *fieldParser) fail(pos int, got, problem string) *ParseError {
	e := f.parser.fail(word{got, f.word.offset + pos}, problem)
	e.Field = f.spec.name
	return e
}

// fold returns c as a capital letter, if it is an ASCII letter.
func fold(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// isNumberAnd reports whether s is a number followed by the letter c.
func isNumberAnd(s string, c byte) bool {
	n := len(s) - 1
	return n > 0 && fold(s[n]) == c && allDigits(s[:n])
}

// atoi reads a number of decimal digits. Those that are too large for any
// field come back as one that is, too.
func atoi(s string) (int, bool) {
	if !allDigits(s) {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		n = min(n*10+int(s[i]-'0'), 1e6)
	}
	return n, true
}
