package layers

import (
	"encoding/binary"
	"testing"
	"time"

	"gobtl/cmd/btlbench/plan"
	"gobtl/fabric"
)

// testStream is a stream, and the function report delivers a control datagram with one word.
func testStream(t *testing.T) (s *rawStream, report func(magic uint64, at int, count int64) error) {
	t.Helper()
	arena, err := fabric.NewArena(make([]byte, 64), 1, 64, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	s = &rawStream{
		p: &rawPort{arena: arena, key: 1 << 50}, r: &Round{Spec: plan.Spec{Number: 7}}, server: true,
		dataLen: 8, controlLen: rawControlBytes, window: 4, sent: 100,
	}
	return s, func(magic uint64, at int, count int64) error {
		b := arena.Bytes(0)
		clear(b)
		binary.LittleEndian.PutUint64(b, magic)
		binary.LittleEndian.PutUint64(b[rawKindAt:], rawCount)
		binary.LittleEndian.PutUint64(b[at:], uint64(count))
		return s.arrived(&fabric.Completion{Op: fabric.OpRecv, Len: rawControlBytes})
	}
}

// A peer has not received more than was sent, and no more than that is lost, whatever the peer
// reports.
func TestRawCountsBeyondSent(t *testing.T) {
	s, report := testStream(t)
	for _, c := range []struct{ count, want int64 }{
		{40, 40}, {30, 40}, {-1, 40}, {100, 100}, {101, 100}, {1 << 40, 100}, {1<<63 - 1, 100},
	} {
		if err := report(s.magic(), rawReceivedAt, c.count); err != nil || s.peerReceived != c.want {
			t.Errorf("%d datagrams reported: %d are counted, %v", c.count, s.peerReceived, err)
		}
	}
	s, report = testStream(t)
	for _, c := range []struct{ count, want int64 }{
		{40, 40}, {30, 40}, {-1, 40}, {100, 100}, {101, 100}, {1 << 40, 100}, {1<<63 - 1, 100},
	} {
		if err := report(s.magic(), rawEchoAt, c.count); err != nil || s.lost != c.want {
			t.Errorf("the answer to datagram %d: %d are lost, %v", c.count, s.lost, err)
		}
	}
}

// The network makes copies of datagrams. The results of a stream contain no more datagrams than
// were sent.
func TestRawCopies(t *testing.T) {
	cfg := Config{
		Provider: "mem/local", Layers: []string{plan.LayerRaw}, Impair: "dup=50%,seed=1",
		PeerTimeoutNs: int64(time.Minute), TimeoutNs: int64(time.Minute),
	}
	client, err := Open(cfg, NodeHint{}, -1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	cfg.Server = true
	server, err := Open(cfg, NodeHint{}, -1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	if err := join(client, server); err != nil {
		t.Fatal(err)
	}
	for _, test := range []string{plan.TestBW, plan.TestRate, plan.TestBiBW} {
		c, s := localRound(t, client, server, plan.Spec{
			Test: test, Layer: plan.LayerRaw, SizeBytes: 64, Window: 8, Messages: 2000,
		})
		if got, sent := s.Tally.Messages, int64(c.Sent); got > sent || s.Tally.Bytes > 64*sent {
			t.Errorf("%s: the server counts %d datagrams of %d", test, got, sent)
		}
		if got, sent := c.Meter.Messages, int64(c.Sent+s.Sent); got > sent {
			t.Errorf("%s: the client counts %d datagrams of %d", test, got, sent)
		}
	}
}

// A control datagram of a third party, or of an earlier round, changes nothing.
func TestRawControlOfOthers(t *testing.T) {
	s, report := testStream(t)
	earlier := s.magic() ^ s.r.Number ^ (s.r.Number - 1)
	for _, magic := range []uint64{0, rawControlMagic, rawControlMagic ^ s.r.Number, earlier} {
		for _, at := range []int{rawReceivedAt, rawEchoAt} {
			if err := report(magic, at, 1<<40); err != nil {
				t.Errorf("magic number %#x: %v", magic, err)
			}
		}
	}
	if s.peerReceived != 0 || s.lost != 0 || s.p.heard != 0 {
		t.Errorf("%d received, %d lost, %d heard", s.peerReceived, s.lost, s.p.heard)
	}
}

// Both sides of a meeting have the same key, and the sides of another meeting have another one.
func TestRawKeys(t *testing.T) {
	keys := make(map[uint64]bool)
	for range 2 {
		client, server := localPair(t)
		c, _ := client.layers[0].(*rawPort)
		s, _ := server.layers[0].(*rawPort)
		if c.key != s.key || c.key == 0 || keys[c.key] {
			t.Errorf("keys %#x and %#x", c.key, s.key)
		}
		keys[c.key] = true
	}
}
