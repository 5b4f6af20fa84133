// Command man writes the manual pages from the programs' own help, so that
// there is one text:
//
//	go run ./packaging/man bin/cronce bin/man
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// commands are the sections of cronce(1), in the order of its help.
var commands = []string{"serve", "run", "hold", "drain", "flock", "validate", "status", "runs", "next", "trigger", "release", "pause", "job", "store", "demo", "completion"}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: man CRONCE FOLDER")
		os.Exit(64)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

// write asks the program at that path, and writes the pages into the folder.
func write(cronce, folder string) error {
	help := map[string]string{}
	for _, subject := range append(commands, "crontab", "config", "") {
		args := []string{"help"}
		if subject != "" {
			args = append(args, subject)
		}
		out, err := exec.Command(cronce, args...).Output()
		if err != nil {
			return fmt.Errorf("%s help %s: %w", cronce, subject, err)
		}
		help[subject] = string(out)
	}
	for name, text := range map[string]string{
		"cronce.1":         program(help),
		"cronce-crontab.5": crontab(help["crontab"]),
		"cronce-config.5":  config(help["config"]),
		"cronced.8":        full(),
	} {
		text = heading.ReplaceAllString(text, "$1") // a section begins a paragraph
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func title(name, section, what string) string {
	return fmt.Sprintf(".\\\" Made by packaging/man from the programs' help: change that.\n.TH %s %s 2026-11-30 cronce \"%s\"\n", strings.ToUpper(name), section, what)
}

func program(help map[string]string) string {
	var b strings.Builder
	first, rest, _ := strings.Cut(help[""], "\n")
	_, what, _ := strings.Cut(first, " - ")
	b.WriteString(title("cronce", "1", "User Commands"))
	b.WriteString(".SH NAME\ncronce \\- " + escape(what) + "\n.SH SYNOPSIS\n")
	b.WriteString(literal(strings.Split(strings.Trim(rest, "\n"), "\n")))
	b.WriteString(".SH COMMANDS\n")
	for _, command := range commands {
		b.WriteString(".SS " + command + "\n" + roff(help[command]))
	}
	b.WriteString(`.SH ENVIRONMENT
.TP
.B CRONCE_STORE
the store, where \-\-store is not given
.TP
.B TZ
the zone of schedules that have none
.SH FILES
.TP
.I /var/lib/cronce/UID
the store of a user, where root has made it
.TP
.I ~/.local/state/cronce
else, below the home in /etc/passwd
.SH SEE ALSO
.BR cronce\-crontab (5),
.BR cronce\-config (5),
.BR cronced (8),
.BR crontab (5),
.BR flock (1)
`)
	return b.String()
}

func crontab(help string) string {
	return title("cronce-crontab", "5", "File Formats") +
		".SH NAME\ncronce\\-crontab \\- crontabs that cronce reads, and the settings in their comments\n.SH DESCRIPTION\n" +
		roff(help) + ".SH SEE ALSO\n.BR cronce (1),\n.BR cronce\\-config (5),\n.BR crontab (5)\n"
}

func config(help string) string {
	return title("cronce-config", "5", "File Formats") +
		".SH NAME\ncronce\\-config \\- YAML files that cronce reads, with jobs that are commands or HTTP requests\n.SH DESCRIPTION\n" +
		roff(help) + ".SH SEE ALSO\n.BR cronce (1),\n.BR cronce\\-crontab (5)\n"
}

func full() string {
	return title("cronced", "8", "System Administration") + `.SH NAME
cronced \- the other half of cronce
.SH DESCRIPTION
.BR cronce (1)
is small, because it is started for every job, and becomes
.B cronced
for whatever is not: serve, drain, validate, release, trigger, pause, resume, job, store and demo.
It is looked for in the folder of cronce's own file and nowhere else, and both must be of one release.
It is not meant to be called by itself, but for
.BR "cronced \-\-version" .
.SH EXIT STATUS
78 where the two programs are of different releases; else as in
.BR cronce (1).
.SH SEE ALSO
.BR cronce (1)
`
}

var (
	entry   = regexp.MustCompile(`^ {2,6}(-.*?|[a-z]+)(?: {2,}(\S.*))?$`)
	setting = regexp.MustCompile(`^  ([a-z-]+(?:=|: )\S+)$`)
	deeper  = regexp.MustCompile(`^ {6,}(\S.*)$`)
	heading = regexp.MustCompile(`(?m)^(\.S[HS].*\n)\.PP\n`)
	usage   = regexp.MustCompile(`^(usage:|      ) cronce |^ {15,}\[`)
)

// roff turns a help text into the language of manual pages: usage lines and
// examples stay as they are, flags and settings become tagged paragraphs.
func roff(text string) string {
	var b strings.Builder
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		take := func(is func(string) bool) (taken []string) {
			for ; i < len(lines) && is(lines[i]); i++ {
				taken = append(taken, lines[i])
			}
			i--
			return taken
		}
		tag := setting.FindStringSubmatch(line)
		if tag == nil {
			tag = entry.FindStringSubmatch(line)
		}
		switch {
		case line == "":
			if i+1 < len(lines) && !strings.HasPrefix(lines[i+1], " ") {
				b.WriteString(".PP\n")
			}
		case usage.MatchString(line):
			b.WriteString(literal(take(usage.MatchString)))
			if i+1 < len(lines) && lines[i+1] != "" {
				b.WriteString(".PP\n")
			}
		case tag != nil:
			b.WriteString(".TP\n.B " + escape(strings.TrimSpace(tag[1])) + "\n")
			if len(tag) > 2 && tag[2] != "" {
				b.WriteString(escape(tag[2]) + "\n")
			}
		case deeper.MatchString(line):
			b.WriteString(escape(strings.TrimSpace(line)) + "\n")
		case strings.HasPrefix(line, " "):
			b.WriteString(literal(take(func(l string) bool { return strings.HasPrefix(l, "  ") })))
		default:
			b.WriteString(escape(line) + "\n")
		}
	}
	return b.String()
}

// literal are lines as they are.
func literal(lines []string) string {
	var b strings.Builder
	b.WriteString(".PP\n.nf\n")
	for _, line := range lines {
		b.WriteString(escape(line) + "\n")
	}
	b.WriteString(".fi\n")
	return b.String()
}

// escape keeps roff from seeing anything but text.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, "`", `\(ga`, `^`, `\(ha`, `~`, `\(ti`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
