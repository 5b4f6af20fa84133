package cmd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cronce/cronce/crontab"
)

// crontab is a crontab, which must be without an error; commands of it that are
// cronce's own are run as cron would. With a name it is there for the commands
// that follow; a name below /etc makes it a system crontab.
func (p *page) crontab(b block) {
	p.crontabText(b, b.text, b.name)
	if b.name != "" {
		p.sandbox().write(b.name, p.sandbox().inside(b.text))
	}
}

func (p *page) crontabText(b block, text, path string) {
	file, err := crontab.Parse(strings.NewReader(text), crontab.Options{Path: path})
	if err != nil {
		p.fail(b, "%v", err)
		return
	}
	for _, e := range file.Errors {
		p.fail(b, "line %d: %s", e.Line, e.Msg)
	}
	if len(file.Jobs) == 0 {
		p.fail(b, "there is no job in it")
	}
	for _, job := range file.Jobs {
		for _, line := range job.Lines {
			if _, set := line.Getenv("PATH"); !set && strings.HasPrefix(line.Command, "cronce ") {
				p.fail(b, "cron's PATH is /usr/bin:/bin, and would not find it: %s", line.Command)
			}
			p.own(b, line.Command)
		}
	}
}

var cronceCommand = regexp.MustCompile(`^(/\S*/)?cronce `)

// own runs a command that cron or systemd would start, where it is cronce's.
func (p *page) own(b block, command string) {
	if !cronceCommand.MatchString(command) {
		return
	}
	if words := strings.Fields(command)[1:]; words[0] == "serve" {
		p.mention(b, words) // it would go on
		return
	}
	s := p.sandbox()
	if out, code := s.run(s.inside(command)); code != 0 {
		p.fail(b, "%s: exit %d\n%s", command, code, out)
	}
}

var (
	unitSection = regexp.MustCompile(`^\[(Unit|Service|Timer|Install)\]$`)
	unitSetting = regexp.MustCompile(`^([A-Z][A-Za-z]+)=(.*)$`)
	unitStart   = []string{"ExecStart", "ExecStartPre", "ExecReload"}
)

// unit is units of systemd: sections, settings, and commands that exist.
func (p *page) unit(b block) {
	p.unitText(b, b.text)
}

func (p *page) unitText(b block, text string) {
	section := false
	for i, line := range strings.Split(text, "\n") {
		at := b
		at.line += i
		m := unitSetting.FindStringSubmatch(line)
		switch {
		case line == "" || line[0] == '#':
		case unitSection.MatchString(line):
			section = true
		case m == nil || !section:
			p.fail(at, "%q is no setting in a section of a unit", line)
		case slices.Contains(unitStart, m[1]):
			if !strings.HasPrefix(m[2], "/") {
				p.fail(at, "systemd wants the program's whole path: %s", line)
			}
			p.own(at, strings.ReplaceAll(m[2], "%%", "%"))
		}
	}
}

var (
	instruction = regexp.MustCompile(`^(FROM|RUN|COPY|ENV|USER|VOLUME|WORKDIR|ARG|LABEL|STOPSIGNAL|HEALTHCHECK|ENTRYPOINT|CMD|EXPOSE)\s`)
	copied      = regexp.MustCompile(`^COPY ([^-]\S*) `)
	execForm    = regexp.MustCompile(`^(?:HEALTHCHECK .*)?(?:CMD|ENTRYPOINT) \["(.*)"\]$`)
)

// dockerfile is an image's: instructions that exist, and cronce's own commands.
func (p *page) dockerfile(b block) {
	p.sandbox().run("cronce store init") // a container that runs has one
	if stages := strings.Split(b.text, "\nFROM "); !strings.Contains(stages[len(stages)-1], "ca-certificates") {
		p.fail(b, "the image has no certificates, and a job that is an https request fails in it")
	}
	for _, line := range strings.Split(strings.ReplaceAll(b.text, "\\\n", ""), "\n") {
		switch m := execForm.FindStringSubmatch(line); {
		case line == "" || line[0] == '#':
		case !instruction.MatchString(line):
			p.fail(b, "%q begins with no instruction", line)
		case m != nil:
			p.own(b, strings.ReplaceAll(m[1], `", "`, " "))
		case copied.MatchString(line):
			if _, err := os.Stat(filepath.Join("..", copied.FindStringSubmatch(line)[1])); err != nil {
				p.fail(b, "%s: %v", line, err)
			}
		}
	}
}

// packages are what a fragment of Go in a page may use without importing it.
var packages = map[string]string{
	"context": "context", "fmt": "fmt", "log": "log", "os": "os", "errors": "errors", "time": "time", "slog": "log/slog",
	"cronce": "github.com/cronce/cronce", "crontab": "github.com/cronce/cronce/crontab",
	"schedule": "github.com/cronce/cronce/schedule", "localstore": "github.com/cronce/cronce/store/localstore",
	"redisstore": "github.com/cronce/cronce/store/redisstore",
	"rows":       "github.com/cronce/cronce/rows", "sql": "database/sql",
}

// golang is a program, or what stands in a function that has a ctx and returns
// an error. It must compile.
func (p *page) golang(b block) {
	text := b.text
	if !strings.Contains(text, "package ") {
		all := p.prepared + text
		text = "package main\n\n"
		for name, path := range packages {
			if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(all) {
				text += fmt.Sprintf("import %q\n", path)
			}
		}
		if !strings.Contains(all, "context.") {
			text += "import \"context\"\n"
		}
		text += p.prepared + "\nfunc example(ctx context.Context) error {\n" + b.text + "\n}\n\nfunc main() {}\n"
		p.prepared = ""
	}
	path := filepath.Join(p.TempDir(), "main.go")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-o", os.DevNull, path)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		p.fail(b, "%v\n%s\n%s", err, out, text)
	}
}
