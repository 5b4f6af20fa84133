package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cronce/cronce/internal/cli"
)

// flockCall is a command line of flock(1).
type flockCall struct {
	how          int // LOCK_EX, LOCK_SH or LOCK_UN
	nonblock     bool
	wait         time.Duration // at most; less than 0: for ever
	badWait      bool          // a time that no timer can be set to
	conflictExit int
	close        bool // the command does not get the lock's descriptor
	noFork       bool // become the command
	verbose      bool
	show         byte // 'h' or 'V': only show help or version

	file    string // empty with descriptor
	fd      int
	command []string // none: fd is to be locked
}

// flockOption is an option as getopt_long(3) knows it. Long names with one
// letter are synonyms.
type flockOption struct {
	long   string
	letter byte
	value  bool
}

// flockOptions are in the order in which flock(1) lists an ambiguous one.
var flockOptions = []flockOption{
	{"shared", 's', false}, {"exclusive", 'x', false}, {"unlock", 'u', false}, {"nonblocking", 'n', false}, {"nb", 'n', false},
	{"timeout", 'w', true}, {"wait", 'w', true}, {"conflict-exit-code", 'E', true}, {"close", 'o', false}, {"no-fork", 'F', false},
	{"verbose", 0, false}, {"help", 'h', false}, {"version", 'V', false},
}

// readFlock reads a command line as flock(1) does: options end at the first
// argument that is none, and -c is one only behind the file.
func readFlock(args []string) (*flockCall, error) {
	c := &flockCall{how: syscall.LOCK_EX, wait: -1, conflictExit: 1}
	rest, err := c.readOptions(args)
	switch {
	case err != nil || c.show != 0:
		return c, err
	case c.noFork && c.close:
		return c, misuseFlock("-F and -o contradict each other: nothing would be left to hold the lock")
	case len(rest) == 0:
		return c, misuseFlock("a file, a folder or the number of a descriptor is needed")
	case len(rest) == 1:
		c.fd, err = flockNumber(rest[0])
		if err != nil {
			err = misuseFlock("%q is no descriptor's number, and a file needs a command", rest[0])
		}
		return c, err
	}
	c.file, c.command = rest[0], rest[1:]
	if c.command[0] == "-c" || c.command[0] == "--command" {
		if len(c.command) != 2 {
			return c, misuseFlock("%s takes exactly one argument, the command", c.command[0])
		}
		shell := os.Getenv("SHELL")
		if shell == "" {
			shell = "/bin/sh"
		}
		c.command = []string{shell, "-c", c.command[1]}
	}
	return c, nil
}

// readOptions takes the options off the arguments.
func (c *flockCall) readOptions(args []string) (rest []string, err error) {
	for len(args) > 0 && c.show == 0 {
		arg := args[0]
		if arg == "--" {
			return args[1:], nil
		}
		if len(arg) < 2 || arg[0] != '-' {
			break
		}
		args = args[1:]
		if name, ok := strings.CutPrefix(arg, "--"); ok {
			args, err = c.readLong(name, args)
		} else {
			args, err = c.readLetters(arg[1:], args)
		}
		if err != nil {
			return nil, err
		}
	}
	return args, nil
}

// readLong reads name or name=value; a value may be the next argument.
func (c *flockCall) readLong(text string, args []string) (rest []string, err error) {
	name, value, attached := strings.Cut(text, "=")
	o, err := findFlockOption(name)
	switch {
	case err != nil:
		return nil, err
	case attached && !o.value:
		return nil, misuseFlock("--%s takes no value", o.long)
	case o.value && !attached:
		if len(args) == 0 {
			return nil, misuseFlock("--%s needs a value", o.long)
		}
		value, args = args[0], args[1:]
	}
	return args, c.set(o, value)
}

// readLetters reads one-letter options behind one dash.
func (c *flockCall) readLetters(letters string, args []string) (rest []string, err error) {
	for i := 0; i < len(letters) && c.show == 0; i++ {
		o := flockOption{letter: letters[i], value: letters[i] == 'w' || letters[i] == 'E'}
		value := letters[i+1:]
		if o.value && value == "" {
			if len(args) == 0 {
				return nil, misuseFlock("-%c needs a value", o.letter)
			}
			value, args = args[0], args[1:]
		}
		if err := c.set(o, value); err != nil || o.value {
			return args, err
		}
	}
	return args, nil
}

// findFlockOption finds an option by its name or by the beginning of it, where
// that fits no other.
func findFlockOption(name string) (flockOption, error) {
	var found []flockOption
	for _, o := range flockOptions {
		switch {
		case o.long == name:
			return o, nil
		case strings.HasPrefix(o.long, name) && (len(found) == 0 || found[len(found)-1].letter != o.letter):
			found = append(found, o)
		}
	}
	switch len(found) {
	case 0:
		return flockOption{}, misuseFlock("there is no option --%s", name)
	case 1:
		return found[0], nil
	}
	return flockOption{}, misuseFlock("--%s may be --%s or --%s", name, found[0].long, found[1].long)
}

// set takes an option in.
func (c *flockCall) set(o flockOption, value string) (err error) {
	switch o.letter {
	case 0: // --verbose
		c.verbose = true
	case 's':
		c.how = syscall.LOCK_SH
	case 'x', 'e':
		c.how = syscall.LOCK_EX
	case 'u':
		c.how = syscall.LOCK_UN
	case 'n':
		c.nonblock = true
	case 'o':
		c.close = true
	case 'F':
		c.noFork = true
	case 'h', 'V':
		c.show = o.letter
	case 'w':
		c.wait, c.badWait, err = flockSeconds(value)
		if err != nil {
			return misuseFlock("-w %q: a number of seconds is needed, as 10 or 0.5", value)
		}
	case 'E':
		c.conflictExit, err = flockNumber(value)
		if err != nil || c.conflictExit < 0 || c.conflictExit > 255 {
			return misuseFlock("-E %q: an exit code from 0 to 255 is needed", value)
		}
	default:
		return misuseFlock("there is no option -%c", o.letter)
	}
	return nil
}

const cSpace = " \t\n\v\f\r"

// flockNumber reads a whole number as strtol(3) does.
func flockNumber(text string) (int, error) {
	n, err := strconv.ParseInt(strings.TrimLeft(text, cSpace), 10, 32)
	return int(n), err
}

// flockSeconds reads a time as strtod(3) does, cut to the microsecond. bad: it
// is a number, but no timer can be set to it.
func flockSeconds(text string) (d time.Duration, bad bool, err error) {
	text = strings.TrimLeft(text, cSpace)
	if s := strings.ToLower(text); strings.Contains(s, "0x") && !strings.Contains(s, "p") {
		text += "p0" // Go wants an exponent, C does not
	}
	f, err := strconv.ParseFloat(text, 64)
	if errors.Is(err, strconv.ErrRange) {
		err = nil // it is infinite
	}
	if err != nil || strings.Contains(text, "_") {
		return 0, false, fmt.Errorf("%q is no number", text)
	}
	micros := math.Trunc(f * 1e6)
	switch {
	case !(micros >= 0 && f < 1<<63):
		return 0, true, nil
	case micros >= math.MaxInt64/1e3:
		return math.MaxInt64, false, nil
	}
	return time.Duration(micros) * time.Microsecond, false, nil
}

func misuseFlock(format string, args ...any) error {
	return cli.Misuse("flock", "flock: "+format, args...)
}
