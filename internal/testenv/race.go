//go:build race

package testenv

// Race tells whether the race detector is on: everything is slower then.
const Race = true
