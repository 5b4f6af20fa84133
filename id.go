package cronce

import (
	"encoding/binary"
	"encoding/hex"
	"time"
)

// NewRunID returns a new UUID of version 7 (RFC 9562): its first 48 bits are
// the host's time in milliseconds, the rest is random.
func NewRunID() string {
	var b [16]byte
	random(b[:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli()))
	copy(b[:6], ms[2:])
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	x := hex.EncodeToString(b[:])
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
}
