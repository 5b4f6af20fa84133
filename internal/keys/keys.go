// Package keys is the one table of the keys of YAML files, and of the flags of a table that is worked off. Package config
// reads files by it, package rows and cronced flags; JSON Schema and 'cronce help' say what it says.
package keys

// Key is a key of a mapping.
type Key struct {
	Name  string
	Value string // what may stand there, for people
	Help  string
}

// The keys, in the order to show them. A job, and the defaults of jobs, have the
// settings of cronce.Settings besides.
var (
	Top = []Key{
		{"store", "FOLDER", "where ticks are claimed and runs recorded, unless --store or CRONCE_STORE say so; a relative one is below this file's folder"},
		{"defaults", "MAPPING", "settings, and env, of all jobs that do not say otherwise"},
		{"jobs", "MAPPING", "jobs by name"},
	}
	Job = []Key{
		{"schedule", "EXPR", "when it is due: five cron fields, a macro as @hourly, or @every 5m"},
		{"command", "TEXT|LIST", "a text for the shell, or a list of the program and its arguments"},
		{"env", "MAPPING", "environment variables of the command, on top of serve's own"},
		{"http", "MAPPING", "a request instead of a command"},
	}
	HTTP = []Key{
		{"method", "METHOD", "GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS (default POST)"},
		{"url", "URL", "http or https, without a user or password in it"},
		{"url-from-file", "FILE", "a file that holds the URL, for one that is secret itself"},
		{"headers", "MAPPING", "headers that are no secrets"},
		{"headers-from-files", "MAPPING", "headers whose values are read from these files for each run"},
		{"body", "TEXT", "what to send"},
		{"body-file", "FILE", "a file that holds what to send"},
		{"success", "STATUS|LIST", "statuses that are a success, as 2xx or 304 (default 2xx)"},
		{"idempotent", "true|false", "the receiver takes requests with one Idempotency-Key for one: one without an answer is tried again too"},
	}
)

// Names are the names of keys.
func Names(keys []Key) (names []string) {
	for _, k := range keys {
		names = append(names, k.Name)
	}
	return names
}

// Help is what is said of a key.
func Help(keys []Key, name string) string {
	for _, k := range keys {
		if k.Name == name {
			return k.Help
		}
	}
	return ""
}
