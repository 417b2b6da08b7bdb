package btl

import (
	"crypto/rand"
	"encoding/binary"
)

// cryptoRandom is the default of Config.Random.
func cryptoRandom() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return binary.LittleEndian.Uint64(b[:])
}

// random returns a random number other than zero.
func (m *Module) random() uint64 {
	for {
		if r := m.cfg.Random(); r != 0 {
			return r
		}
	}
}
