//go:build !linux || !(amd64 || arm64)

package cronce

import "crypto/rand"

// random fills b from the system's generator.
func random(b []byte) { rand.Read(b) }
