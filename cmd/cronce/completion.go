package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

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
// none.
var completionScripts = map[string]string{
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

// completion prints a shell's script, or answers one.
func completion(ctx context.Context, args []string, stdout io.Writer) error {
	if asksHelp(args) && args[0] != "words" {
		return help([]string{"completion"}, stdout)
	}
	shells := slices.Sorted(maps.Keys(completionScripts))
	switch {
	case len(args) > 0 && args[0] == "words":
		for _, word := range words(ctx, args[1:]) {
			fmt.Fprintln(stdout, word)
		}
		return nil
	case len(args) != 1 || completionScripts[args[0]] == "":
		return cli.Misuse("completion", "a shell is expected, one of %s", strings.Join(shells, ", "))
	}
	_, err := io.WriteString(stdout, completionScripts[args[0]])
	return err
}

var (
	helpFlag    = pattern(`(?m)^ +(-.*)$`)
	oneFlag     = pattern(`^(-{1,2}[A-Za-z][a-z-]*)(?: ([A-Za-z=|[\]]+))?(?:$|  |, |; )`)
	usageLine   = pattern(`(?m)^(?:usage:|      ) cronce ([a-z]+) ([^\s]+)`)
	usageFlag   = pattern(`\[(-[a-z-]+)(?: ([A-Za-z|]+))?`)
	helpCommand = pattern(`(?m)^  cronce ([a-z]+)|, ([a-z]+) JOB`)
	lowerWord   = pattern(`^[a-z-]+$`)
)

// pattern is compiled at its first use: this program is started for every job,
// and six of them would take a tenth of a run in front of true.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// flags are the flags that a help text names, with what their values look like.
func flags(text string) map[string]string {
	found := map[string]string{}
	for _, m := range helpFlag().FindAllStringSubmatch(text, -1) {
		for rest := m[1]; ; {
			f := oneFlag().FindStringSubmatch(rest)
			if f == nil {
				break
			}
			found[f[1]] = f[2]
			rest = rest[len(f[0]):]
		}
	}
	for _, m := range usageFlag().FindAllStringSubmatch(text, -1) {
		if _, ok := found[m[1]]; !ok || strings.Contains(m[2], "|") {
			found[m[1]] = m[2]
		}
	}
	return found
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
		for _, m := range helpCommand().FindAllStringSubmatch(helpMain, -1) {
			found = append(found, m[1]+m[2])
		}
		return starting(found, last)
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
	for _, m := range usageLine().FindAllStringSubmatch(text(), -1) {
		if m[1] == command {
			found = append(found, arguments(ctx, text(), m[2], before)...)
		}
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
		if v = strings.TrimSuffix(v, "["); lowerWord().MatchString(v) {
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
