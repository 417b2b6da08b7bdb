package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/bits"
	"sync"

	"gobtl/btl"
	"gobtl/btl/call"
)

// The methods of the server.
const (
	methodSearch uint16 = 1 // bits that shall be zero, one byte, and a text: a number of 8 bytes
	methodBusy   uint16 = 2 // nothing: how many searches of the asker are under way, 8 bytes
)

// server searches.
type server struct {
	mu   sync.Mutex
	busy map[*btl.Endpoint]uint64 // searches under way
}

func (s *server) register(n *call.Node) {
	n.Handle(methodSearch, s.search) // long: a goroutine for each
	n.HandleInline(methodBusy, s.howBusy)
}

// search searches for a number until it finds one, or until no client waits for it.
func (s *server) search(ctx context.Context, peer *btl.Endpoint, request []byte) ([]byte, error) {
	if len(request) == 0 {
		return nil, errors.New("how many bits?")
	}
	want, text := int(request[0]), request[1:]
	s.count(peer, 1)
	defer s.count(peer, ^uint64(0))
	for number := uint64(0); ; number++ {
		if zeroBits(text, number) >= want {
			return binary.LittleEndian.AppendUint64(nil, number), nil
		}
		if number%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// count adds to the searches of a peer.
func (s *server) count(peer *btl.Endpoint, change uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[peer] += change; s.busy[peer] == 0 {
		delete(s.busy, peer)
	}
}

// howBusy is answered at once, by the goroutine that drives the module.
func (s *server) howBusy(peer *btl.Endpoint, _, answer []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return binary.LittleEndian.AppendUint64(answer, s.busy[peer]), nil
}

// zeroBits is how many zero bits the hash of text and number begins with.
func zeroBits(text []byte, number uint64) int {
	hash := sha256.Sum256(binary.LittleEndian.AppendUint64(append([]byte(nil), text...), number))
	zeros := 0
	for _, b := range hash {
		if b != 0 {
			return zeros + bits.LeadingZeros8(b)
		}
		zeros += 8
	}
	return zeros
}
