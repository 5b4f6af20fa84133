//go:build !race

package localstore

const raceBuilt = false
