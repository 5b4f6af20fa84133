// Package cli is what the two programs' commands have in common: how they read
// flags, name errors and choose exit codes.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/keys"
	"github.com/cronce/cronce/schedule"
	"github.com/cronce/cronce/store/localstore"
)

// Exit codes, after sysexits.h.
const (
	OK          = 0
	Failure     = 1
	Usage       = 64
	NoInput     = 66
	Unavailable = 69
	LeaseLost   = 70
	TempFail    = 75
	Config      = 78
)

// UsageError is a command line that makes no sense.
type UsageError struct {
	Command string
	Err     error
}

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Misuse returns a *UsageError.
func Misuse(command, format string, args ...any) error {
	return &UsageError{command, fmt.Errorf(format, args...)}
}

// ExitError is an error that has its exit code with it.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string { return e.Err.Error() }
func (e *ExitError) Unwrap() error { return e.Err }

// Fail prints the error as "cronce: what happened" and returns its exit code.
func Fail(stderr io.Writer, err error) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return OK
	}
	if errors.Is(err, syscall.EPIPE) {
		return Failure // whoever read the output has gone; there is nobody to tell
	}
	for _, line := range strings.Split(strings.TrimRight(string(Readable([]byte(err.Error()))), "\n"), "\n") {
		if !isSnippet(line) {
			line = "cronce: " + line
		}
		fmt.Fprintln(stderr, line)
	}
	code := Code(err)
	var usage *UsageError
	if errors.As(err, &usage) && usage.Command != "" {
		fmt.Fprintf(stderr, "cronce: see 'cronce help %s'\n", usage.Command)
	}
	return code
}

// isSnippet reports whether a line shows one of a file, or the mark below it.
func isSnippet(line string) bool {
	return strings.HasPrefix(line, " ") && strings.HasPrefix(strings.TrimLeft(line, " 0123456789"), "| ")
}

// Code is the exit code for an error.
func Code(err error) int {
	var exit *ExitError
	var usage *UsageError
	var unavailable *cronce.UnavailableError
	var config *cronce.ConfigError
	var conflict *cronce.ConflictError
	var skew *cronce.SkewError
	var late *cronce.LateAnswerError
	var parse *schedule.ParseError
	var setting *cronce.SettingError
	switch {
	case err == nil:
		return OK
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &usage), errors.As(err, &parse), errors.As(err, &setting):
		return Usage
	case errors.As(err, &unavailable), errors.As(err, &late):
		return Unavailable
	case errors.Is(err, cronce.ErrLost):
		return LeaseLost
	case errors.As(err, &config), errors.As(err, &conflict), errors.As(err, &skew):
		return Config
	}
	return Failure
}

// Flags is a flag set that reports errors instead of printing them, and lets
// flags stand after arguments too.
type Flags struct {
	*flag.FlagSet
	// StoreTimeout is how long to try to reach a store that is not local.
	StoreTimeout time.Duration

	command string
	secret  error // a flag's value that must not be shown: package flag would
}

// Refuse refuses the command line for a flag's value that must not be shown.
func (f *Flags) Refuse(err error) { f.secret = err }

// Given reports whether a flag was on the command line.
func (f *Flags) Given(name string) (is bool) {
	f.Visit(func(g *flag.Flag) { is = is || g.Name == name })
	return is
}

// NewFlags returns the flags of a command.
func NewFlags(command string) *Flags {
	f := &Flags{FlagSet: flag.NewFlagSet(command, flag.ContinueOnError), command: command}
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	return f
}

// Parse reads the command line and returns the arguments that are no flags.
// After "--" all are arguments. -h and --help give flag.ErrHelp.
func (f *Flags) Parse(args []string) ([]string, error) {
	var rest []string
	for {
		if err := f.parse(args); err != nil {
			return nil, err
		}
		// The flag package stops at an argument, or behind "--".
		used := len(args) - f.NArg()
		if used > 0 && args[used-1] == "--" || f.NArg() == 0 {
			return append(rest, f.Args()...), nil
		}
		rest = append(rest, f.Arg(0))
		args = f.Args()[1:]
	}
}

// ParseFirst is Parse for a command that runs another one: flags stand only
// before the first argument. A "--" stays where it is.
func (f *Flags) ParseFirst(args []string) ([]string, error) {
	if err := f.parse(args); err != nil {
		return nil, err
	}
	return f.Args(), nil
}

// parse reads flags up to the first argument.
func (f *Flags) parse(args []string) error {
	err := f.FlagSet.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case f.secret != nil:
		return &UsageError{f.command, f.secret}
	case err == nil:
		return nil
	}
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return &UsageError{f.command, tidy(err)}
	}
	written := args[len(args)-f.NArg()-1] // package flag has taken it off
	if flag, value, ok := f.attached(written); ok {
		return f.parse(append([]string{flag, value}, f.Args()...))
	}
	return &UsageError{f.command, f.unknown(name)}
}

// attached takes -n5 apart, as tail(1) and others have it.
func (f *Flags) attached(written string) (name, value string, ok bool) {
	if len(written) < 3 || written[0] != '-' || written[1] == '-' || f.Lookup(written[1:2]) == nil {
		return "", "", false
	}
	return written[:2], written[2:], strings.Trim(written[2:], "0123456789") == ""
}

// unknown says that there is no such flag, and which may have been meant.
func (f *Flags) unknown(name string) error {
	var known []string
	f.VisitAll(func(g *flag.Flag) { known = append(known, g.Name) })
	if near := keys.Nearest(name, known); near != "" {
		return fmt.Errorf("unknown flag %s: did you mean %s?", dashed(name), dashed(near))
	}
	return fmt.Errorf("unknown flag %s", dashed(name))
}

// dashed is a flag as people type it.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// tidy writes flags as people type them: with two dashes where they have more
// than one letter.
func tidy(err error) error {
	words := strings.Fields(err.Error())
	for i, w := range words {
		if name, ok := strings.CutPrefix(strings.TrimSuffix(w, ":"), "-"); ok && len(name) > 1 && name[0] != '-' {
			words[i] = "-" + w
		}
	}
	return errors.New(strings.Join(words, " "))
}

// SplitSubcommand takes the command's name off the arguments.
func SplitSubcommand(args []string) (name string, rest []string) {
	if len(args) == 0 {
		return "", nil
	}
	return args[0], args[1:]
}

// OpenForReading opens a local store that must be there already, to look at
// it. As the store's own user it can also see which runs still live.
func OpenForReading(dir string) (*cronce.Store, error) {
	info, err := there(dir)
	var missing *ExitError
	if errors.As(err, &missing) {
		return nil, err
	}
	if err == nil && info.Sys().(*syscall.Stat_t).Uid == uint32(os.Geteuid()) {
		if store, err := localstore.Open(localstore.Options{Dir: dir}); err == nil {
			return store, nil
		}
	}
	return localstore.Open(localstore.Options{Dir: dir, ReadOnly: true})
}

// OpenThere opens a local store that must be there already, to change something
// in it.
func OpenThere(dir string) (*cronce.Store, error) {
	if _, err := there(dir); err != nil {
		return nil, err
	}
	return localstore.Open(localstore.Options{Dir: dir})
}

// there looks at the store's folder. *ExitError: there is none.
func there(dir string) (fs.FileInfo, error) {
	place := dir
	if place == "" {
		var err error
		if place, err = localstore.Place(); err != nil {
			return nil, &ExitError{Code(err), err}
		}
	}
	info, err := os.Stat(place)
	if errors.Is(err, fs.ErrNotExist) {
		if !strings.HasPrefix(strings.TrimPrefix(place, "file://"), "/") { // from CRONCE_STORE: what it should be is said to all alike
			_, err := localstore.Open(localstore.Options{Dir: place, ReadOnly: true})
			return nil, err
		}
		return nil, &ExitError{NoInput, fmt.Errorf("there is no store at %s: the first serve or run makes it; another one is named by --store or CRONCE_STORE", place)}
	}
	return info, err
}

// CheckKnown names a job that the store at dir has never seen.
func CheckKnown(ctx context.Context, store *cronce.Store, dir, job string) error {
	if job == "" {
		return nil
	}
	_, known, err := store.Job(ctx, job)
	if err == nil && !known {
		err = fmt.Errorf("there is no job %q in this store: 'cronce status%s' lists them", job, StoreOption(dir))
	}
	return err
}

// StoreOption is what a command that people are told to type has to say of the
// store at dir: " --store DIR", but nothing of the place where this user's store
// is by default.
func StoreOption(dir string) string {
	if IsURL(dir) && dir == os.Getenv("CRONCE_STORE") {
		return "" // it may have a password, and is named already
	}
	if place, err := localstore.DefaultPlace(); dir == "" || err == nil && dir == place {
		return ""
	}
	return " --store " + ShellWord(WithoutSecrets(dir))
}

// ShellWord writes a name so that it can be pasted into a shell.
func ShellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@+,", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Readable writes control characters as \x1b or \u202e, tabs and line ends aside,
// so that what a job prints, or a crontab says, can neither disturb a terminal
// nor forge lines of a log, nor show its letters in another order than they are.
func Readable(text []byte) []byte {
	var out []byte
	done := 0
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		bad := r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
		if r == utf8.RuneError && n == 1 { // no UTF-8: terminals of one byte a letter have controls there
			bad = text[i] < 0xa0
		}
		if bad {
			out = append(out, text[done:i]...)
			if n == 1 {
				out = fmt.Appendf(out, `\x%02x`, text[i])
			} else {
				out = fmt.Appendf(out, `\u%04x`, r)
			}
			done = i + n
		}
		i += n
	}
	if done == 0 {
		return text
	}
	return append(out, text[done:]...)
}

// Tell prints a problem, or what else people should know, as "cronce: …".
func Tell(stderr io.Writer, what any) {
	fmt.Fprintf(stderr, "cronce: %s\n", Readable(fmt.Append(nil, what)))
}
