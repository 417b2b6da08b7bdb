package layers

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"time"

	"gobtl/cmd/btlbench/plan"
	"gobtl/fabric"
)

// rawSides opens raw ports of this process, of which the first is a server.
func rawSides(t *testing.T, n int) (ports []*rawPort) {
	t.Helper()
	for i := range n {
		s, err := Open(Config{
			Provider: "mem/local", Layers: []string{plan.LayerRaw}, Server: i == 0,
			PeerTimeoutNs: int64(time.Second), TimeoutNs: int64(time.Second),
		}, NodeHint{}, -1)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		p, _ := s.layers[0].(*rawPort)
		ports = append(ports, p)
	}
	return ports
}

// A server whose client has offered the address of another host sends a few datagrams there, even
// if the client knows how a meeting begins, and guesses the number of the server.
func TestRawMeetThirdParty(t *testing.T) {
	ports := rawSides(t, 3)
	server, client, victim := ports[0], ports[1], ports[2]
	to, err := client.dom.Insert(server.ep.Name())
	if err != nil {
		t.Fatal(err)
	}
	for theirs := range uint64(100) {
		buf := client.free[0]
		b := client.arena.Bytes(buf)[:rawControlBytes]
		clear(b)
		binary.LittleEndian.PutUint64(b, rawControlMagic)
		binary.LittleEndian.PutUint64(b[rawKindAt:], rawMeet)
		binary.LittleEndian.PutUint64(b[rawMineAt:], 7)
		binary.LittleEndian.PutUint64(b[rawTheirsAt:], theirs)
		client.sends[0] = fabric.Send{To: to, Buf: buf, Len: rawControlBytes}
		if _, err := client.ep.Post(client.sends[:1]); err != nil {
			t.Fatal(err)
		}
	}
	offer := victim.offer()
	offer.RecvCapacity = math.MaxInt
	if err := server.connect(offer, 3*time.Second); !errors.Is(err, errSilent) {
		t.Errorf("connected with a third party: %v", err)
	}
	got := 0
	for n := 1; n > 0; got += n {
		if n, err = victim.poll(victim.out); err != nil {
			t.Fatal(err)
		}
	}
	if got > rawMeetSends || got == 0 {
		t.Errorf("the third party got %d datagrams, at most %d are permitted", got, rawMeetSends)
	}
	if server.peerCapacity > rawFlightMax {
		t.Errorf("%d datagrams on the way to a peer", server.peerCapacity)
	}
}

// Two sides meet although datagrams are lost.
func TestRawMeetLoss(t *testing.T) {
	cfg := Config{
		Provider: "mem/local", Layers: []string{plan.LayerRaw}, Impair: "loss=30%,seed=1",
		PeerTimeoutNs: int64(time.Second), TimeoutNs: int64(time.Minute),
	}
	var sides []*Side
	for range 2 {
		s, err := Open(cfg, NodeHint{}, -1)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		sides = append(sides, s)
		cfg.Server = true
	}
	if err := join(sides[0], sides[1]); err != nil {
		t.Error(err)
	}
}
