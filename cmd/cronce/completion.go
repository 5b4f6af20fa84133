package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/cronce/cronce/internal/cli"
)

const helpCompletion = `usage: cronce completion bash|zsh|fish

Prints what lets a shell complete commands, flags and the names of jobs with
Tab. To have it in every shell of yours, put one of these into its start file:

  source <(cronce completion bash)      ~/.bashrc
  source <(cronce completion zsh)       ~/.zshrc, below compinit
  cronce completion fish | source       ~/.config/fish/config.fish

The shells ask 'cronce completion words WORD...' what the last word of a command
line may become: one a line, and nothing where a file is expected.
`

// completionScripts let a shell ask for words, and take files where there are
// none. They are put together when they are asked for: no other start has to.
func completionScripts() map[string]string {
	return map[string]string{
		// Readline takes words apart at : and =, which names of jobs may have.
		"bash": `_cronce() {
	local word glue= prefix words=() found
	for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
		if [[ ${#words[@]} -gt 0 && ( $word == [:=]* || $glue ) ]]; then
			words[-1]+=$word
		else
			words+=("$word")
		fi
		glue=
		[[ $word == *[:=] ]] && glue=1
	done
	prefix=${words[-1]%"${words[-1]##*[:=]}"}
	mapfile -t found < <("${COMP_WORDS[0]}" completion words "${words[@]}" 2>/dev/null)
	COMPREPLY=()
	for word in "${found[@]}"; do
		COMPREPLY+=("$(printf %q "${word#"$prefix"}")")
	done
}
complete -o default -F _cronce cronce
`,
		"zsh": `#compdef cronce
_cronce() {
	local -a found
	found=("${(@f)$("${words[1]}" completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ -n "${found[*]}" ]]; then
		compadd -a found
	else
		_files
	fi
}
if [[ "${funcstack[1]}" = _cronce ]]; then
	_cronce "$@"
else
	compdef _cronce cronce
fi
`,
		"fish": `function __cronce_words
	set -l words (commandline -opc) (commandline -ct)
	$words[1] completion words $words[2..-1] 2>/dev/null
end
complete -c cronce -f -n 'count (__cronce_words) >/dev/null' -a '(__cronce_words)'
`,
	}
}

// completion prints a shell's script, or answers one.
func completion(ctx context.Context, args []string, stdout io.Writer) error {
	if asksHelp(args) && args[0] != "words" {
		return help([]string{"completion"}, stdout)
	}
	scripts := completionScripts()
	shells := slices.Sorted(maps.Keys(scripts))
	switch {
	case len(args) > 0 && args[0] == "words":
		for _, word := range words(ctx, args[1:]) {
			fmt.Fprintln(stdout, word)
		}
		return nil
	case len(args) != 1 || scripts[args[0]] == "":
		return cli.Misuse("completion", "a shell is expected, one of %s", strings.Join(shells, ", "))
	}
	_, err := io.WriteString(stdout, scripts[args[0]])
	return err
}

// The texts are read without package regexp: to link it would cost every job a
// part of its start.

// flags are the flags that a help text names, with what their values look like.
func flags(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		// As in a list: "  -n, --name JOB  what it means".
		rest := strings.TrimLeft(line, " ")
		for ok := rest != line && strings.HasPrefix(rest, "-"); ok; {
			var name, value string
			if name, value, rest, ok = listedFlag(rest); ok {
				found[name] = value
			}
		}
		// As in a usage: "[--name JOB]".
		for _, part := range strings.Split(line, "[-")[1:] {
			name := "-" + prefix(part, isFlagByte)
			value := ""
			if after, ok := strings.CutPrefix(part[len(name)-1:], " "); ok {
				value = prefix(after, func(b byte) bool { return isLetter(b) || b == '|' })
			}
			if _, ok := found[name]; !ok || strings.Contains(value, "|") {
				found[name] = value
			}
		}
	}
	return found
}

// listedFlag takes a flag, and what its value looks like, from the front of a
// line of a list. Behind it stands another flag, or two blanks, or nothing.
func listedFlag(line string) (name, value, rest string, ok bool) {
	dashes := prefix(line, func(b byte) bool { return b == '-' })
	name = dashes + prefix(line[len(dashes):], func(b byte) bool { return isFlagByte(b) || isLetter(b) })
	rest = line[len(name):]
	if after, spaced := strings.CutPrefix(rest, " "); spaced {
		value = prefix(after, func(b byte) bool { return isLetter(b) || strings.IndexByte("=|[]", b) >= 0 })
		if value != "" {
			rest = after[len(value):]
		}
	}
	for _, end := range []string{"\n", "  ", ", ", "; "} {
		if after, is := strings.CutPrefix(rest, end); is && len(dashes) <= 2 && len(name) > len(dashes) {
			return name, value, after, true
		}
	}
	return "", "", "", false
}

// prefix is the part at the front of s that has only such bytes.
func prefix(s string, is func(byte) bool) string {
	n := 0
	for n < len(s) && is(s[n]) {
		n++
	}
	return s[:n]
}

func isLower(b byte) bool    { return 'a' <= b && b <= 'z' }
func isLetter(b byte) bool   { return isLower(b) || 'A' <= b && b <= 'Z' }
func isFlagByte(b byte) bool { return isLower(b) || b == '-' }

// commands are those that the main help names.
func commands() (names []string) {
	for line := range strings.Lines(helpMain) {
		rest, ok := strings.CutPrefix(line, "  cronce ")
		if !ok {
			continue
		}
		names = append(names, prefix(rest, isLower))
		for _, part := range strings.Split(rest, ", ")[1:] { // "pause JOB, resume JOB"
			if name := prefix(part, isLower); strings.HasPrefix(part[len(name):], " JOB") {
				names = append(names, name)
			}
		}
	}
	return names
}

// usages are the first words that may stand behind a command, as its usage says.
func usages(text, command string) (words []string) {
	for line := range strings.Lines(text) {
		for _, front := range []string{"usage: cronce ", "       cronce "} {
			rest, ok := strings.CutPrefix(line, front+command+" ")
			if fields := strings.Fields(rest); ok && len(fields) > 0 {
				words = append(words, fields[0])
			}
		}
	}
	return words
}

// words is what the last word may become, sorted; none where that is a file, or
// anything.
func words(ctx context.Context, line []string) []string {
	if len(line) == 0 {
		return nil
	}
	before, last := line[:len(line)-1], line[len(line)-1]
	var found []string
	if len(before) == 0 {
		return starting(commands(), last)
	}
	texts := subjects()
	command := before[0]
	if command == "help" {
		return starting(slices.Collect(maps.Keys(texts)), last)
	}
	text, ok := texts[command]
	if !ok || slices.Contains(before, "--") {
		return nil // another program's
	}
	known := flags(text())
	if value := known[before[len(before)-1]]; value != "" && len(before) > 1 {
		return starting(values(ctx, value, before), last)
	}
	if strings.HasPrefix(last, "-") {
		return starting(slices.Collect(maps.Keys(known)), last)
	}
	for _, first := range usages(text(), command) {
		found = append(found, arguments(ctx, text(), first, before)...)
	}
	return starting(found, last)
}

// arguments is what may stand behind a command, as its usage says: the first
// word there is what must be typed, or a job.
func arguments(ctx context.Context, text, first string, before []string) []string {
	var typed []string
	known := flags(text)
	for i, w := range before[1:] {
		if !strings.HasPrefix(w, "-") && known[before[i]] == "" { // before[i] is the word in front
			typed = append(typed, w)
		}
	}
	switch first = strings.Trim(first, "[].…"); {
	case len(typed) == 0 && strings.HasPrefix(first, "JOB"):
		return jobNames(ctx, before)
	case len(typed) == 0 && !strings.ContainsFunc(first, func(r rune) bool { return r >= 'A' && r <= 'Z' || r == '-' && first[0] == '-' }):
		return strings.Split(first, "|")
	case len(typed) == 1 && strings.Contains(text, "cronce "+before[0]+" "+typed[0]+" JOB"):
		return jobNames(ctx, before)
	}
	return nil
}

// values are those that a flag's value is one of.
func values(ctx context.Context, value string, before []string) []string {
	if value == "JOB" {
		return jobNames(ctx, before)
	}
	var found []string
	for _, v := range strings.Split(value, "|") {
		v, _, _ = strings.Cut(v, "=")
		if v = strings.TrimSuffix(v, "["); v != "" && prefix(v, isFlagByte) == v {
			found = append(found, v)
		}
	}
	return found
}

// jobNames are the names of the jobs in the store that the line is about.
// Where there is none, or it cannot be read, there are no names to offer.
func jobNames(ctx context.Context, before []string) []string {
	f := cli.NewFlags("completion")
	dir := cli.StoreFlag(f)
	if i := slices.Index(before, "--store"); i >= 0 && i+1 < len(before) {
		f.Set("store", before[i+1])
	}
	store, err := cli.OpenForReading(*dir)
	if err != nil {
		return nil
	}
	defer store.Close()
	states, err := store.Jobs(ctx)
	if err != nil {
		return nil
	}
	var names []string
	for _, s := range states {
		names = append(names, s.Job)
	}
	return names
}

// starting are the words that begin so, each once, sorted. Options of one letter
// are offered only to whom asks for them.
func starting(words []string, with string) []string {
	words = slices.DeleteFunc(words, func(w string) bool {
		return !strings.HasPrefix(w, with) || len(w) == 2 && w[0] == '-' && with != w
	})
	slices.Sort(words)
	return slices.Compact(words)
}
