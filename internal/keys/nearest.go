package keys

import "strings"

// Nearest is the known name that was most likely meant by one that is not known, "" if
// none is near.
func Nearest(name string, known []string) string {
	best, nearest := "", 3
	for _, k := range known {
		if n := distance(Plain(name), Plain(k)); n < nearest && n < len(Plain(k))/2+1 {
			best, nearest = k, n
		}
	}
	return best
}

// Plain is a name without what people write in different ways.
func Plain(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(name))
}

// distance is how many letters must be changed, put in or taken out.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			left, row[j+1] = row[j+1], min(left+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
