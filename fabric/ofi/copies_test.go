//go:build linux && cgo

package ofi

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/fabric"
)

// peerCopies is PEER_COPIES of copies.c.
const peerCopies = 256

// copying opens a domain of a provider that gets copies of sends, and an endpoint of the domain.
func copying(t *testing.T, name string, group *crowd) (*domain, fabric.Endpoint) {
	t.Helper()
	d := group.open(name)(t, fabric.DomainConfig{Buffers: 8})
	return plain(d), openEndpoint(t, d, fabric.EndpointConfig{})
}

// flood sends as much as possible to a peer, while the peer receives nothing.
func flood(t *testing.T, from fabric.Endpoint, to fabric.Addr, bytes int) {
	t.Helper()
	for range 2 * peerCopies {
		_, err := from.Post([]fabric.Send{{To: to, Len: uint32(bytes)}})
		if errors.Is(err, fabric.ErrAgain) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		pollOnce(t, from)
	}
}

// meet inserts a peer, and makes the peer receive a message to set up a connection.
func meet(t *testing.T, d *domain, from, to fabric.Endpoint) fabric.Addr {
	t.Helper()
	addr := insert(t, d, to.Name())
	mustRecv(t, to, 1)
	sent := false
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if !sent {
			n, err := from.Post([]fabric.Send{{To: addr, Len: 8}})
			if sent = n == 1; !sent && !errors.Is(err, fabric.ErrAgain) {
				t.Fatal(err)
			}
		}
		pollOnce(t, from)
		for _, c := range pollOnce(t, to) {
			if c.Op == fabric.OpRecv {
				return addr
			}
		}
	}
	t.Fatal("a message does not arrive")
	return addr
}

func pollOnce(t *testing.T, ep fabric.Endpoint) []fabric.Completion {
	t.Helper()
	var out [8]fabric.Completion
	n, err := ep.Poll(out[:])
	if err != nil {
		t.Fatal(err)
	}
	return out[:n]
}

// TestCopiesOfPeerThatComesAgain checks a stalled peer. The provider has no more copies for the
// peer than the peer's share, even if the peer is removed and inserted repeatedly.
func TestCopiesOfPeerThatComesAgain(t *testing.T) {
	for _, name := range []string{"ofi/tcp", "ofi/udp;ofi_rxd"} {
		t.Run(name, func(t *testing.T) {
			mine, from := copying(t, name, new(crowd))
			_, still := copying(t, name, new(crowd))
			addr := meet(t, mine, from, still)
			for life := range 4 {
				flood(t, from, addr, mine.info.MTUBytes)
				if n := mine.copied(); n == 0 || n > peerCopies {
					t.Fatalf("life %d of the peer: %d copies, want 1 to %d", life, n, peerCopies)
				}
				if err := mine.Remove(addr); err != nil {
					t.Fatal(err)
				}
				addr = insert(t, mine, still.Name())
			}
		})
	}
}

// TestPeersAreForgotten checks that peers that were removed with outstanding sends are forgotten
// after the sends have completed.
func TestPeersAreForgotten(t *testing.T) {
	mine, from := copying(t, "ofi/tcp", new(crowd))
	const lives = 4 * forgetsLeast
	most := 0
	for range lives {
		theirs, to := copying(t, "ofi/tcp", new(crowd))
		addr := meet(t, mine, from, to)
		mustRecv(t, to, 2)
		if _, err := from.Post([]fabric.Send{{To: addr, Len: uint32(mine.info.MTUBytes)}}); err != nil {
			t.Fatal(err)
		}
		if err := mine.Remove(addr); err != nil {
			t.Fatal(err)
		}
		most = max(most, len(mine.peers.kept))
		for end := time.Now().Add(10 * time.Second); mine.copied() > 0; {
			pollOnce(t, from)
			pollOnce(t, to)
			if time.Now().After(end) {
				t.Fatalf("%d copies are left of a peer that has taken all", mine.copied())
			}
		}
		if err := errors.Join(to.Close(), theirs.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if most == 0 {
		t.Error("the provider has had nothing for a peer that was removed at once")
	}
	if n := len(mine.peers.kept); n > forgetsLeast || len(mine.peers.all) > forgetsLeast+1 {
		t.Errorf("of %d peers %d are kept, in %d places", lives, n, len(mine.peers.all))
	}
}

// TestKeptMost checks that with the largest number of kept peers no new peer can be inserted, but a
// kept peer can.
func TestKeptMost(t *testing.T) {
	mine, from := copying(t, "ofi/tcp", new(crowd))
	_, still := copying(t, "ofi/tcp", new(crowd))
	_, other := copying(t, "ofi/tcp", new(crowd))
	addr := meet(t, mine, from, still)
	flood(t, from, addr, mine.info.MTUBytes)
	if err := mine.Remove(addr); err != nil {
		t.Fatal(err)
	}
	if len(mine.peers.kept) != 1 {
		t.Fatalf("%d peers are kept", len(mine.peers.kept))
	}
	for _, i := range mine.peers.kept {
		for n := range keptMost - 1 { // simulates many such peers
			mine.peers.kept[fmt.Sprint(n)] = i
		}
	}
	if _, err := mine.Insert(other.Name()); !errors.Is(err, fabric.ErrAgain) {
		t.Errorf("a newcomer: %v", err)
	}
	insert(t, mine, still.Name())
}
