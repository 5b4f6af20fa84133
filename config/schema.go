package config

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/cronce/cronce"
)

// object is a part of a JSON Schema.
type object = map[string]any

// Schema is a JSON Schema (draft 2020-12) of the files that [Parse] reads, for
// editors and for checks elsewhere. The settings are those of
// [cronce.Settings]. It cannot say all that Parse says: whether a schedule can
// be read, or a zone is known.
func Schema() []byte {
	b, err := json.MarshalIndent(schema(), "", "  ")
	if err != nil {
		panic(err) // of maps and texts
	}
	return append(b, '\n')
}

func schema() object {
	settings := object{}
	for _, s := range cronce.Settings() {
		if s.Key != "name" {
			settings[s.Key] = setting(s)
		}
	}
	env := described(object{"type": "object", "additionalProperties": scalar()}, "environment variables of the command, on top of serve's own")
	job := object{
		"schedule": described(text(), "when it is due: five cron fields, a macro as @hourly, or @every 5m"),
		"command": described(object{"anyOf": []object{
			word(),
			{"type": "array", "minItems": 1, "items": scalar()},
		}}, "a text for the shell, or a list of the program and its arguments"),
		"env":  env,
		"http": httpSchema(),
	}
	defaults := object{"env": env}
	for key, s := range settings {
		job[key], defaults[key] = s, s
	}
	return object{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "configuration of cronce",
		"description": "jobs for 'cronce serve --config FILE'",
		"type":        "object",
		"properties": object{
			"store":    described(word(), "where ticks are claimed and runs recorded, unless --store or CRONCE_STORE say so"),
			"defaults": described(closed(defaults), "settings of all jobs that do not say otherwise"),
			"jobs": object{
				"description":   "jobs by name",
				"type":          "object",
				"propertyNames": object{"minLength": 1, "maxLength": cronce.MaxNameBytes},
				"additionalProperties": with(closed(job), object{
					"required": []string{"schedule"},
					"oneOf":    []object{{"required": []string{"command"}}, {"required": []string{"http"}}},
					"dependentSchemas": object{"http": object{"not": object{"anyOf": []object{
						{"required": []string{"env"}}, {"required": []string{"grace"}}, {"required": []string{"orphans"}},
					}}}},
				}),
			},
		},
		"patternProperties":    object{"^x-": true},
		"required":             []string{"jobs"},
		"additionalProperties": false,
	}
}

func httpSchema() object {
	status := object{"anyOf": []object{
		{"type": "integer", "minimum": 200, "maximum": 599},
		{"type": "string", "pattern": `^[2-5](xx|[0-9][0-9])$`},
	}}
	return with(closed(object{
		"method":             object{"enum": methods, "default": "POST"},
		"url":                described(object{"type": "string", "pattern": "^[hH][tT][tT][pP][sS]?://[^@/?#]"}, "without a user or password in it"),
		"url-from-file":      described(word(), "a file that holds the URL, for one that is secret itself"),
		"headers":            described(object{"type": "object", "additionalProperties": scalar()}, "headers that are no secrets"),
		"headers-from-files": described(object{"type": "object", "additionalProperties": word()}, "headers whose values are read from these files for each run"),
		"body":               scalar(),
		"body-file":          word(),
		"success":            described(object{"anyOf": append(status["anyOf"].([]object), object{"type": "array", "minItems": 1, "items": status})}, "statuses that are a success, as 2xx or 304; default 2xx"),
		"idempotent":         described(object{"type": "boolean"}, "the receiver takes requests with one Idempotency-Key for one: one without an answer is tried again too"),
	}), object{
		"oneOf": []object{{"required": []string{"url"}}, {"required": []string{"url-from-file"}}},
		"not":   object{"required": []string{"body", "body-file"}},
	})
}

const (
	number   = `([0-9]+(\.[0-9]*)?|\.[0-9]+)`
	duration = `\+?(0|(` + number + `(ns|us|µs|μs|ms|s|m|h))+)`
)

// setting is the schema of what the table says of a setting's value.
func setting(s cronce.Setting) object {
	out := text()
	switch words := strings.Split(s.Value, "|"); {
	case s.Value == "DURATION":
		out["pattern"] = "^" + duration + "$"
	case s.Value == "N":
		out = object{"anyOf": []object{
			{"type": "integer", "minimum": 0, "maximum": cronce.MaxRetries},
			{"type": "string", "pattern": "^[0-9]+$"},
		}}
	case s.Value == "yes|no":
		out = object{"enum": []any{"yes", "no", true, false}}
	case len(words) > 1:
		for i, w := range words {
			w = regexp.QuoteMeta(w)
			w = strings.ReplaceAll(w, `\[=DURATION\]`, "(="+duration+")?")
			words[i] = strings.ReplaceAll(w, "DURATION", duration)
		}
		out["pattern"] = "^(" + strings.Join(words, "|") + ")$"
	}
	return described(out, s.Help)
}

func text() object   { return object{"type": "string", "minLength": 1} }
func word() object   { return with(scalar(), object{"minLength": 1}) }
func scalar() object { return object{"type": []string{"string", "number", "boolean"}} }

func closed(properties object) object {
	return object{"type": "object", "properties": properties, "additionalProperties": false}
}

func described(o object, text string) object { return with(o, object{"description": text}) }

func with(o, more object) object {
	for k, v := range more {
		o[k] = v
	}
	return o
}
