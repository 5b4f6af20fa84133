package cli

import (
	"slices"
	"strings"

	"github.com/cronce/cronce"
)

// UpdateCommand is what people type so that the store at dir has the definition have of a job,
// of which it keeps another; "" where the two differ in nothing that a run can follow.
func UpdateCommand(dir, job string, kept, have cronce.Definition) string {
	var flags []string
	change := func(key, was, is string) {
		if was != is {
			flags = append(flags, "--"+key, ShellWord(is))
		}
	}
	change("schedule", kept.Schedule, have.Schedule)
	change("zone", kept.Zone, have.Zone)
	for _, s := range cronce.Settings() {
		was, is := policy(kept, s.Key), policy(have, s.Key)
		switch {
		case is == "" && (was == "" || s.Serve): // that is of a program that serves the job
		case is == "":
			change(s.Key, was, "default")
		default:
			change(s.Key, was, is)
		}
	}
	if len(flags) == 0 {
		return ""
	}
	return "cronce job update" + StoreOption(dir) + " " + ShellWord(job) + " " + strings.Join(flags, " ")
}

// policy is the value of a setting in a definition, "" where it has none.
func policy(d cronce.Definition, key string) string {
	words := strings.Fields(d.Policies)
	i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, key+"=") })
	if i < 0 {
		return ""
	}
	return strings.TrimPrefix(words[i], key+"=")
}
