package stream

import (
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
