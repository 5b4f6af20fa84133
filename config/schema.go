package config

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/cronce/cronce"
	"github.com/cronce/cronce/internal/keys"
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
	env := described(object{"type": "object", "additionalProperties": scalar()}, keys.Help(keys.Job, "env"))
	job := object{
		"schedule": described(text(), keys.Help(keys.Job, "schedule")),
		"command": described(object{"anyOf": []object{
			word(),
			{"type": "array", "minItems": 1, "items": scalar()},
		}}, keys.Help(keys.Job, "command")),
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
			"store":    described(word(), keys.Help(keys.Top, "store")),
			"defaults": described(closed(defaults), keys.Help(keys.Top, "defaults")),
			"jobs": object{
				"description":   keys.Help(keys.Top, "jobs"),
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
	properties := object{
		"method":             object{"enum": methods, "default": "POST"},
		"url":                object{"type": "string", "pattern": "^[hH][tT][tT][pP][sS]?://[^@/?#]"},
		"url-from-file":      word(),
		"headers":            object{"type": "object", "additionalProperties": scalar()},
		"headers-from-files": object{"type": "object", "additionalProperties": word()},
		"body":               scalar(),
		"body-file":          word(),
		"success":            object{"anyOf": append(status["anyOf"].([]object), object{"type": "array", "minItems": 1, "items": status})},
		"idempotent":         object{"type": "boolean"},
	}
	for name, p := range properties {
		described(p.(object), keys.Help(keys.HTTP, name))
	}
	return with(closed(properties), object{
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
