package localstore

import (
	"crypto/sha256"
	"encoding/hex"
)

// folderName is the folder of a job in the store: the name itself where it is
// made of a-z, 0-9, '.', '_' and '-'; of any other the readable part, '~' and
// a hash. So no two names share a folder, also on a file system that takes A
// for a, none leads out of the store, and none is too long.
func folderName(job string) string {
	const longest = 100
	plain := len(job) <= longest && job[0] != '.' && job[0] != '-'
	slug := make([]byte, 0, len(job))
	for i := 0; i < len(job); i++ {
		c := job[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
			plain = false
		default:
			c = '_'
			plain = false
		}
		// Of a run of strange characters one shows; a dot or dash in front never does.
		if c == '_' && job[i] != '_' && (len(slug) == 0 || slug[len(slug)-1] == '_') {
			continue
		}
		if len(slug) == 0 && (c == '.' || c == '-') {
			continue
		}
		slug = append(slug, c)
	}
	if plain {
		return job
	}
	sum := sha256.Sum256([]byte(job))
	return string(slug[:min(len(slug), longest)]) + "~" + hex.EncodeToString(sum[:10])
}

// validRunID tells whether the id is a UUID in lower case, as
// [cronce.NewRunID] makes them, and so fit to be a file's name.
func validRunID(id string) bool {
	if len(id) != 36 {
		return false
	}
	for i := 0; i < len(id); i++ {
		c := id[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// idTime is the millisecond at which a UUIDv7 was made.
func idTime(id string) int64 {
	b, err := hex.DecodeString(id[:8] + id[9:13])
	if err != nil {
		return 0
	}
	var ms int64
	for _, c := range b {
		ms = ms<<8 | int64(c)
	}
	return ms
}
