package cmd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What the pages tell a reader to type is typed here. Every fenced block of
// README.md and docs is exercised by its language, in order, in a sandbox of
// the page's own (see session); a language that is not in the table below is an
// error, so that a new page is either exercised or fails. A page prepares what
// its reader would have with comments that only this test reads:
//
//	<!-- test:
//	shell commands, run before the next block
//	-->
//	<!-- test: go
//	declarations for the next block of Go
//	-->
var languages = map[string]func(*page, block){
	"sh":      (*page).shell,
	"console": (*page).console, // "$ " before commands, what they print below
	"crontab": (*page).crontab, // a second word is the file's name
	"go":      (*page).golang,
	"ini":     (*page).unit,

	"yaml":       (*page).file, // a second word is the file's name
	"dockerfile": (*page).dockerfile,
	"schedules":  (*page).schedules, // one a line, then what it means
	"json":       (*page).shown,
	"text":       (*page).shown, // what programs print; nothing to type
}

// elsewhere are the commands of pages that are not run here but by another
// test: the file, and what it says there.
var elsewhere = map[string][2]string{
	"cronce demo crons":                 {"testdata/demo_crons.txtar", "cronce demo crons"},
	"cronce demo notices":               {"testdata/demo_notices.txtar", "cronce demo notices"},
	"sudo cronce store init --user app": {"operations_test.go", "store init --user"}, // root's, on the machine itself
	`printf '[Service]\nExecStart=\nExecStart=/usr/local/bin/cronce serve --system --no-catchup\n' | sudo tee /run/systemd/system/cronce-system.service.d/once.conf`: {"serve_catchup_test.go", `serve("--no-catchup")`},

	"make night":                            {"../examples/policy-server/night/night_test.go", "run(t.Context(), &n.out, minTicks, n.store, program)"},
	"go run ./examples/policy-server/night": {"../examples/policy-server/night/night_test.go", "run(t.Context(), &n.out, minTicks, n.store, program)"},
	"go run ./examples/policy-server/night -ticks 100 -store redis":                                   {"../examples/policy-server/night/night_test.go", "run(t.Context(), &n.out, minTicks, n.store, program)"},
	"CRONCE_DB=mysql://app:secret@127.0.0.1/test PATH=$PWD/bin:$PATH go run ./examples/notifications": {"../examples/notifications/notifications_test.go", `testenv.MariaDB(t)`},

	"sudo cronce status --system":                    {"system_view_test.go", `"status", "--system"`},
	"sudo cronce runs --system --failed --since 24h": {"system_view_test.go", `"runs", "--system", "--failed"`},
	"sudo cronce trigger report --system --user app": {"another_user_test.go", `"--system", "--user", name`},
	"sudo cronce validate --system":                  {"serve_system_test.go", `"validate", "--system"`},
}

// A page is a document, and the sandbox that its commands are run in.
type page struct {
	*testing.T
	path     string // from the module's root
	text     string
	session  *session
	prepared string // declarations for the next block of Go
}

// A block is a fenced block, or a comment for this test.
type block struct {
	line    int // of its first line of text
	lang    string
	name    string // the second word behind the fence
	text    string
	comment bool
}

func TestDocs(t *testing.T) {
	paths, err := filepath.Glob("../docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatal("no documents", err)
	}
	for command, place := range elsewhere {
		if text, err := os.ReadFile(place[0]); err != nil || !strings.Contains(string(text), place[1]) {
			t.Errorf("%s is not run by %s (%v)", command, place[0], err)
		}
	}
	for _, path := range append(paths, "../README.md") {
		name, _ := filepath.Rel("..", path)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			p := &page{T: t, path: name, text: string(text)}
			p.mentions()
			for _, b := range p.blocks() {
				p.exercise(b)
				if t.Failed() {
					return // what follows may need it
				}
			}
		})
	}
}

// The examples, and what a package installs, are held to the same, by their
// names.
func TestDocs_Examples(t *testing.T) {
	t.Parallel()
	n := 0
	for _, dir := range []string{"../examples", "../packaging"} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			p := &page{T: t, path: path, text: string(text)}
			b := block{line: 1, name: filepath.Base(path), text: p.text}
			n++
			switch name := b.name; {
			case strings.HasPrefix(name, "crontab"):
				p.crontab(b)
			case name == "Dockerfile":
				p.dockerfile(b)
			case strings.HasSuffix(name, ".service"), strings.HasSuffix(name, ".timer"):
				p.unit(b)
			case strings.HasSuffix(name, ".yaml"):
				p.file(b)
			case strings.HasSuffix(name, ".go"): // compiled with the rest
			case strings.HasSuffix(name, ".md"):
				p.mentions()
				for _, b := range p.blocks() {
					p.exercise(b)
				}
			default:
				p.fail(b, "nothing is known that would exercise it")
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 4 {
		t.Errorf("only %d files are found", n)
	}
}

func (p *page) fail(b block, format string, args ...any) {
	p.Helper()
	p.Errorf("%s:%d: %s", p.path, b.line, fmt.Sprintf(format, args...))
}

// exercise does with a block what its language asks for.
func (p *page) exercise(b block) {
	if b.comment {
		p.prepare(b)
		return
	}
	do, ok := languages[b.lang]
	if !ok {
		p.fail(b, "a block of %q: nothing is known that would exercise it; what is only shown is ```text", b.lang)
		return
	}
	do(p, b)
}

// sandbox is the page's session, begun when it is first needed.
func (p *page) sandbox() *session {
	if p.session == nil {
		p.session = newSession(p.T, p.text)
	}
	return p.session
}

// prepare does what a comment for this test says.
func (p *page) prepare(b block) {
	if b.lang == "go" {
		p.prepared = b.text
	} else if out, code := p.sandbox().run(p.sandbox().inside(b.text)); code != 0 {
		p.fail(b, "the preparation ends with exit %d\n%s", code, out)
	}
}

var (
	fence   = regexp.MustCompile("^( *)```(.*)$")
	forTest = regexp.MustCompile(`^<!-- test:(.*)$`)
)

// blocks reads the page. A block that does not end is an error.
func (p *page) blocks() []block {
	var found []block
	lines := strings.Split(p.text, "\n")
	for i := 0; i < len(lines); i++ {
		b := block{line: i + 2}
		indent, end := "", "-->"
		if m := forTest.FindStringSubmatch(lines[i]); m != nil {
			b.comment, b.lang = true, strings.TrimSpace(m[1])
		} else if m := fence.FindStringSubmatch(lines[i]); m != nil {
			indent, end = m[1], "```"
			b.lang, b.name, _ = strings.Cut(strings.TrimSpace(m[2]), " ")
		} else {
			continue
		}
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != end; i++ {
			b.text += strings.TrimPrefix(lines[i], indent) + "\n"
		}
		if i == len(lines) {
			p.fail(b, "the block has no end")
		}
		found = append(found, b)
	}
	return found
}

// shell runs the commands of a block, each of which must succeed.
func (p *page) shell(b block) {
	for _, c := range p.commands(b, strings.Split(b.text, "\n"), false) {
		p.command(c)
	}
}

// console runs the commands of a session at a shell, and compares what they
// print with what is shown, if anything is.
func (p *page) console(b block) {
	for _, c := range p.commands(b, strings.Split(b.text, "\n"), true) {
		p.command(c)
	}
}

// A typed is a command as a page has it.
type typed struct {
	block
	shown []string
}

// commands takes a block apart: a command ends with the line that completes it.
func (p *page) commands(b block, lines []string, prompt bool) []typed {
	var all []typed
	for i := 0; i < len(lines); i++ {
		c := typed{block: b}
		c.line += i
		c.text = lines[i]
		if prompt {
			var is bool
			if c.text, is = strings.CutPrefix(c.text, "$ "); !is {
				if n := len(all); n > 0 {
					all[n-1].shown = append(all[n-1].shown, lines[i])
				} else if lines[i] != "" {
					p.fail(c.block, "a console begins with $ and a command")
				}
				continue
			}
		}
		for !complete(c.text) && i+1 < len(lines) {
			i++
			c.text += "\n" + lines[i]
		}
		if word := strings.TrimSpace(c.text); word != "" && !strings.HasPrefix(word, "#") {
			all = append(all, c)
		}
	}
	for i := range all { // the line end before the closing fence
		if n := len(all[i].shown); n > 0 && all[i].shown[n-1] == "" {
			all[i].shown = all[i].shown[:n-1]
		}
	}
	return all
}

var comment = regexp.MustCompile(`\s+#.*$`)

// command types a command. A serve goes on until the page has ended.
func (p *page) command(c typed) {
	if _, ok := elsewhere[comment.ReplaceAllString(c.text, "")]; ok {
		return
	}
	if strings.Contains(c.text, "cronce") && strings.Contains(c.text, "--system") {
		p.fail(c.block, "%s\nis about the machine itself, which no sandbox holds: another test has to run it, named in elsewhere", c.text)
		return
	}
	s := p.sandbox()
	text := s.inside(c.text)
	if strings.HasPrefix(c.text, "cronce serve ") {
		shown := c.shown
		if len(shown) == 0 {
			shown = []string{"… serves …"}
		}
		if got, ok := s.serve(text, shown); !ok {
			p.fail(c.block, "%s\nprints\n%s\nand not all of this, in this order\n%s", c.text, got, strings.Join(shown, "\n"))
		}
		return
	}
	out, code := s.run(text)
	switch got := strings.Split(strings.TrimRight(out, "\n"), "\n"); {
	case len(c.shown) == 0 && code != 0:
		p.fail(c.block, "%s\nends with exit %d\n%s", c.text, code, out)
	case len(c.shown) > 0 && !matches(c.shown, got):
		p.fail(c.block, "%s\nprints (exit %d)\n%s\nand the page shows\n%s", c.text, code, out, strings.Join(c.shown, "\n"))
	}
}

// shown is a block with nothing to type in it.
func (p *page) shown(b block) {
	if m := regexp.MustCompile(`(?m)^(\$ |cronce [a-z]+ ).*`).FindString(b.text); m != "" {
		p.fail(b, "%q looks like a command: that is for ```sh or ```console", m)
	}
}

// file is a file that commands of the page read. It must be accepted.
func (p *page) file(b block) {
	if b.name == "" {
		p.fail(b, "a second word behind the fence names the file, for the commands that read it")
		return
	}
	p.accepted(b, p.sandbox().write(b.name, p.sandbox().inside(b.text)))
}

// accepted lets cronce read a file that serve would.
func (p *page) accepted(b block, path string) {
	if out, code := p.sandbox().run("cronce validate '" + path + "'"); code != 0 {
		p.fail(b, "cronce validate: exit %d\n%s", code, out)
	}
}

// schedules are lines with a schedule and what it means.
func (p *page) schedules(b block) {
	for i, line := range strings.Split(strings.TrimRight(b.text, "\n"), "\n") {
		expr := regexp.MustCompile(` {2,}`).Split(line, 2)[0]
		if out, code := p.sandbox().run("cronce next --name job '" + expr + "'"); code != 0 {
			b.line += i
			p.fail(b, "%s", out)
		}
	}
}

var (
	span = regexp.MustCompile("`(cronce [^`\n]+)`")
	word = regexp.MustCompile(`^[a-z]+$`)
	dash = regexp.MustCompile(`^\[*(--[a-z][a-z-]+)`)
)

// mentions looks at commands within the text: each must exist, and its help
// know the flags.
func (p *page) mentions() {
	for _, m := range span.FindAllStringSubmatchIndex(p.text, -1) {
		b := block{line: 1 + strings.Count(p.text[:m[0]], "\n"), text: p.text[m[2]:m[3]]}
		p.mention(b, strings.Fields(b.text)[1:])
	}
}

// mention looks at a command that is not run: cronce, and these words.
func (p *page) mention(b block, words []string) {
	if i := slices.Index(words, "--"); i >= 0 {
		words = words[:i]
	}
	if !word.MatchString(words[0]) || words[0] == "version" || words[0] == "help" {
		return
	}
	help := p.help(b, words[0])
	for _, w := range words[1:] {
		if m := dash.FindStringSubmatch(w); m != nil && !strings.Contains(help, m[1]) {
			p.fail(b, "%s: 'cronce help %s' knows no %s", b.text, words[0], m[1])
		}
	}
}

// help is the help on a command.
func (p *page) help(b block, command string) string {
	out, err := exec.Command(filepath.Join(bin, "cronce"), "help", command).Output()
	if err != nil {
		p.fail(b, "`%s`: there is no 'cronce help %s'", b.text, command)
	}
	return string(out)
}
