package cronce

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// LoadZone returns the zone of that IANA name; "" is the host's zone. A host
// whose TZ is no such name is an error: a schedule must not move to another zone
// in silence.
func LoadZone(name string) (*time.Location, error) {
	if name == "" {
		if tz, ok := os.LookupEnv("TZ"); ok && zoneOfTZ(tz) == "" {
			return nil, fmt.Errorf("TZ=%s names no time zone that is known here: a name as Europe/Paris or UTC is needed", tz)
		}
		name = LocalZone()
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is not a known time zone: a name as Europe/Paris or UTC is expected", name)
	}
	return zone, nil
}

// LocalZone is the IANA name of the host's zone: from TZ where it is set (as
// tzset(3): empty means UTC), else from where /etc/localtime points, else from
// /etc/timezone. It is "UTC" on a host without any, and "Local" where the zone
// has no name, so that two such hosts do not agree by accident.
func LocalZone() string {
	if tz, ok := os.LookupEnv("TZ"); ok {
		if name := zoneOfTZ(tz); name != "" {
			return name
		}
		return "Local"
	}
	return systemZone()
}

// zoneOfTZ is the zone that a value of TZ names, "" if it is none.
func zoneOfTZ(tz string) string {
	tz = strings.TrimPrefix(tz, ":")
	if tz == localtime {
		return systemZone()
	}
	return zoneName(tz)
}

const localtime = "/etc/localtime"

// systemZone is the zone of the host without TZ.
func systemZone() string {
	if target, err := os.Readlink(localtime); err == nil {
		if name := zoneName(target); name != "" && name != target {
			return name
		}
	} else if os.IsNotExist(err) {
		return "UTC"
	}
	if b, err := os.ReadFile("/etc/timezone"); err == nil {
		if name := zoneName(strings.TrimSpace(string(b))); name != "" {
			return name
		}
	}
	return "Local"
}

// zoneName returns the zone's name in a name or path, "" if it is none.
func zoneName(s string) string {
	if s == "" {
		return "UTC"
	}
	if _, after, ok := strings.Cut(s, "zoneinfo/"); ok {
		s = after
	}
	s = strings.TrimPrefix(strings.TrimPrefix(s, "posix/"), "right/")
	if _, err := time.LoadLocation(s); err != nil {
		return ""
	}
	return s
}
