// Package build tells which release this program is.
package build

import "runtime/debug"

// stamped is set by the linker (-X) in a release build.
var stamped string

// Version is the release, or what Go's build information says of the source
// that the program was built from. Two programs built together agree.
func Version() string {
	if stamped != "" {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// WantVersion is the environment variable by which cronce tells cronced which
// version it is, so that programs of two releases do not share a task.
const WantVersion = "CRONCE_WANT_VERSION"
