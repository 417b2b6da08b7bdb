// Package cookie makes cookies for stateless address validation, as a server sends them in a
// Retry packet. A cookie is the number of a time period, followed by a truncated HMAC-SHA256 of
// the number, the purpose and the address.
//
//	0        4                20
//	+========+================+
//	| when   | MAC            |
//	+========+================+
//
// One goroutine at a time may use a Jar.
package cookie

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// Bytes is the length of a cookie.
const Bytes = whenBytes + macBytes

const (
	whenBytes = 4
	macBytes  = 16
)

// For is the purpose of a cookie. A cookie is valid only for the purpose and the address for which
// it was made.
type For struct {
	Channel          uint8
	Incarnation, Tag uint64
}

// Jar makes and verifies cookies. New makes a Jar.
type Jar struct {
	mac    hash.Hash
	head   [whenBytes + 1 + 8 + 8]byte
	sum    [sha256.Size]byte
	cookie [Bytes]byte
}

// New returns a Jar whose secret key consists of results of the function "random".
func New(random func() uint64) *Jar {
	var key [sha256.Size]byte
	for i := 0; i < len(key); i += 8 {
		binary.LittleEndian.PutUint64(key[i:], random())
	}
	return &Jar{mac: hmac.New(sha256.New, key[:])}
}

// Bake returns the cookie for an address and a purpose. The argument "when" of Bake is the number
// of the present time period, which is a part of the cookie. The slice that Bake returns is valid
// until the next call of Bake or Good.
func (j *Jar) Bake(when uint32, what For, addr []byte) []byte {
	head := &j.head
	binary.LittleEndian.PutUint32(head[0:], when)
	head[4] = what.Channel
	binary.LittleEndian.PutUint64(head[5:], what.Incarnation)
	binary.LittleEndian.PutUint64(head[13:], what.Tag)
	j.mac.Reset()
	j.mac.Write(head[:]) // never fails (hash.Hash)
	j.mac.Write(addr)
	copy(j.cookie[:], head[:whenBytes])
	copy(j.cookie[whenBytes:], j.mac.Sum(j.sum[:0]))
	return j.cookie[:]
}

// Good reports whether this Jar made the cookie for the given purpose and address, in the present
// time period (the argument "now") or the previous one.
func (j *Jar) Good(now uint32, what For, addr, cookie []byte) bool {
	if len(cookie) != Bytes {
		return false
	}
	when := binary.LittleEndian.Uint32(cookie)
	return now-when <= 1 && hmac.Equal(j.Bake(when, what, addr), cookie)
}
