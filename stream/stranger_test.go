//go:build unix

package stream

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"gobtl/fabric"
)

// A stranger sends datagrams to the data address of a receiver, and has no connection to it.
type stranger struct {
	t   *testing.T
	dom fabric.Domain
	ep  fabric.Endpoint
	to  fabric.Addr
}

// stranger opens an endpoint at a node of its own.
func (w *simWorld) stranger(t *testing.T, to *simHost) *stranger {
	t.Helper()
	dom, err := w.nw.Node("stranger").Open(fabric.DomainConfig{Buffers: 256, BufferBytes: 1472})
	if err != nil {
		t.Fatal(err)
	}
	s := &stranger{t: t, dom: dom}
	if s.ep, err = dom.OpenEndpoint(fabric.EndpointConfig{}); err != nil {
		t.Fatal(err)
	}
	if s.to, err = dom.Insert(to.Engine.data.main.ep.Name()); err != nil {
		t.Fatal(err)
	}
	return s
}

// post sends a datagram from buffer b.
func (s *stranger) post(b fabric.Buf, datagram []byte) {
	s.t.Helper()
	arena := s.dom.Arena()
	n := copy(arena.Bytes(b), datagram)
	if _, err := s.ep.Post([]fabric.Send{{Buf: b, Len: uint32(n), To: s.to}}); err != nil {
		s.t.Fatal(err)
	}
}

// TestShortDatagrams: datagrams that are too short for a header, and come into buffers in which
// headers of the stream stand, belong to no stream.
func TestShortDatagrams(t *testing.T) {
	w := newSimWorld(t, 51, 1)
	s := w.open(Config{Mode: Unreliable, Messages: 8000, BitsPerSecond: 64 * 8 * 5000},
		Geometry{64, 16, 32}, 0)
	w.until(time.Minute, func() bool { return s.got > rxBuffers }) // each buffer was used
	bad := w.stranger(t, w.rx[0])
	for i := range headerBytes {
		bad.post(fabric.Buf(i), make([]byte, i))
	}
	w.until(time.Minute, s.ended)
	s.verdict(8000, 0, 0)
	if n := s.rx.Stats().Foreign; n != headerBytes {
		t.Errorf("%d datagrams count as foreign, want %d", n, headerBytes)
	}
}

// forge posts messages with wrong content.
func (s *stranger) forge(key, ordinal uint64, messages, messageBytes int) {
	s.t.Helper()
	for i := range messages {
		b := bytes.Repeat([]byte{0xee}, headerBytes+messageBytes)
		h := header{key: key, ordinal: ordinal + uint64(i)}
		h.put(b)
		s.post(fabric.Buf(i%128), b)
	}
}

// TestForeignDatagrams: a process that knows all that identities and other receivers of the stream
// know writes no message into a receiver's stream, and does not move its end.
func TestForeignDatagrams(t *testing.T) {
	const leap, forged = 400_000_000, 100
	for name, c := range map[string]struct {
		key   func(s *simStream) uint64
		ahead uint64
	}{
		"key of the stream": {key: func(s *simStream) uint64 { return s.tx.Identity().Key }, ahead: 9},
		"key of another":    {key: func(s *simStream) uint64 { return s.tx.links[1].dataKey }, ahead: 9},
		"leap":              {key: func(s *simStream) uint64 { return s.tx.Identity().Key }, ahead: leap},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimWorld(t, 52, 2)
			cfg := Config{
				Mode: Unreliable, Messages: 2000, BitsPerSecond: 64 * 8 * 5000, Receivers: 2,
			}
			s := w.open(cfg, roguesGeometry, 0)
			ring, _ := NewRing(roguesGeometry, nil)
			rx, err := w.rx[1].newReceiver(ring, cfg, 78)
			if err != nil {
				t.Fatal(err)
			}
			other := &simStream{w: w, tx: s.tx, rx: rx}
			w.rx[1].after = other.read
			if err := s.tx.addReceiver(rx.Identity()); err != nil {
				t.Fatal(err)
			}
			bad := w.stranger(t, w.rx[0])
			w.until(time.Minute, func() bool { return s.got > 500 && other.got > 500 })
			bad.forge(c.key(s), s.tx.stats.Sent+c.ahead, forged, 64)
			w.until(time.Minute, func() bool { return s.ended() && rx.state == stateDone })
			for _, x := range []*simStream{s, other} {
				if st := x.rx.Stats(); st.Received != 2000 || x.wrong > 0 || x.rx.err != nil {
					t.Errorf("%d messages are wrong, %v, %+v", x.wrong, x.rx.err, st)
				}
			}
			if n := s.rx.Stats().Foreign; n != forged {
				t.Errorf("%d datagrams count as foreign, want %d", n, forged)
			}
		})
	}
}

// TestForeignGroupDatagrams: a receiver of a multicast group knows the data key of the group, and
// writes no message into the streams of the other receivers.
func TestForeignGroupDatagrams(t *testing.T) {
	const group = "239.77.1.3:47111"
	a, b := openPort(t, PortConfig{}), openPort(t, PortConfig{})
	cfg := Config{Mode: Unreliable, Group: group}
	tx, err := a.Send(newRing(t, 64, 4, 4), cfg)
	if errors.Is(err, fabric.ErrNotSupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	cfg.Group = ""
	rx, err := b.Receive(newRing(t, 64, 4, 4), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Connect(tx, rx.Identity()); err != nil {
		t.Fatal(err)
	}
	bad := groupStranger(t, group)
	within := time.Now().Add(patience)
	until := func(what string, cond func(Stats) bool) {
		t.Helper()
		for !cond(rx.Stats()) {
			if time.Now().After(within) {
				t.Fatalf("%s: %+v, %v", what, rx.Stats(), rx.Err())
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	if _, err := tx.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tx.Populate(4); err != nil {
		t.Fatal(err)
	}
	until("no datagrams of the sender", func(st Stats) bool { return st.Datagrams == 4 })
	var key uint64
	if err := a.do(func() error { key = tx.cast.dataKey; return nil }); err != nil {
		t.Fatal(err)
	}
	until("no datagrams of the stranger", func(st Stats) bool {
		bad.forge(key, 4, 4, 64)
		return st.Foreign > 0 || st.Datagrams > 4
	})
	tx.Finish()
	if _, got, _ := consume(t, rx); got != 4 || rx.Err() != nil {
		t.Errorf("%d messages, %v, %+v", got, rx.Err(), rx.Stats())
	}
}

// groupStranger opens an endpoint that sends to a group.
func groupStranger(t *testing.T, group string) *stranger {
	t.Helper()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil || len(infos) == 0 {
		t.Fatalf("no loopback: %v", err)
	}
	dom, err := fabric.Open(infos[0], fabric.DomainConfig{Buffers: 256, BufferBytes: 1472})
	if err != nil {
		t.Fatal(err)
	}
	s := &stranger{t: t, dom: dom}
	t.Cleanup(func() {
		if err := errors.Join(s.ep.Close(), dom.Close()); err != nil {
			t.Error(err)
		}
	})
	if s.ep, err = dom.OpenEndpoint(fabric.EndpointConfig{}); err != nil {
		t.Fatal(err)
	}
	if s.to, err = dom.(fabric.Grouper).InsertGroup(group); err != nil {
		t.Fatal(err)
	}
	return s
}
