package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/frag"
)

// If a peer answers each copy of a packet by a Nack that no peer has a reason to send, the packet
// is not acknowledged, and the peer is dead after the dead time-out.
func TestEndlessNacks(t *testing.T) {
	for name, c := range map[string]struct {
		first, then uint8
		putBytes    int // of a put; 0: a message of one byte
	}{
		"no memory for a message of one packet": {frag.NackMemory, frag.NackMemory, 0},
		"no handler for a Void":                 {frag.NackNoHandler, frag.NackNoHandler, 0},
		"no memory for a Void":                  {frag.NackNoHandler, frag.NackMemory, 0},
		"no memory for a small put":             {frag.NackMemory, frag.NackMemory, 1},
		"no memory for a large put":             {frag.NackMemory, frag.NackMemory, 100_000},
	} {
		t.Run(name, func(t *testing.T) {
			l, s := newStranger(t, apart())
			ep := s.connect()
			if c.putBytes == 0 {
				sendOrFail(t, ep, 1, []byte("x"))
			} else if f, err := ep.PreparePut(make([]byte, c.putBytes), 1, 0); err != nil {
				t.Fatal(err)
			} else if _, err := ep.Send(ep.Now(), f); err != nil {
				t.Fatal(err)
			}
			reason, nacks := c.first, 0
			for end := l.now.Add(6 * s.m.Config().PeerTimeout); l.now < end && ep.Err() == nil; {
				l.step(5 * time.Millisecond)
				for _, p := range s.take() {
					if !p.hdr.Kind.HasSeq() {
						continue
					}
					s.raw(0, encode(frag.Header{
						Kind: frag.KindNack, Conn: s.conn, Seq: p.hdr.Seq, Tag: reason,
					}, nil))
					reason = c.then
					nacks++
				}
			}
			if !errors.Is(ep.Err(), ErrPeerDead) || nacks < 3 {
				t.Errorf("after %d Nacks the endpoint has ended with %v", nacks, ep.Err())
			}
		})
	}
}
