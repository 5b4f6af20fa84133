package schedule

// spreadHash is the number behind H: it depends on the job's name and on the
// field only, so that a job keeps its place on every host and in every
// version. It is part of the format: testdata/hash-vectors.jsonl lists values,
// and docs/schedules.md describes it.
//
// It is the 64-bit FNV-1a hash of the bytes of the name, a zero byte and the
// field's English name (as in ParseError.Field), then mixed by MurmurHash3's
// 64-bit finalizer: FNV alone is weak in the low bits, which the remainder
// looks at.
func spreadHash(name, field string) uint64 {
	h := uint64(14695981039346656037)
	add := func(c byte) {
		h ^= uint64(c)
		h *= 1099511628211
	}
	for i := range len(name) {
		add(name[i])
	}
	add(0)
	for i := range len(field) {
		add(field[i])
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return h
}

// hashed returns the values of H with a range and a step. Without a step
// (step 0) that is one value of the range; with a step it is every step-th
// value, begun at a hashed one of the first step values.
func hashed(h uint64, low, high, step int) uint64 {
	n := high - low + 1
	if step == 0 {
		return 1 << (low + int(h%uint64(n)))
	}
	var set uint64
	for v := low + int(h%uint64(min(step, n))); v <= high; v += step {
		set |= 1 << v
	}
	return set
}
