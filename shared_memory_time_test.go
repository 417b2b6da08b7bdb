package gobtl_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"gobtl"
	"gobtl/btl"
)

// stuckNode returns a Node that shares memory, and whose handlers of the given networks do not
// return until the end of the test.
func stuckNode(t *testing.T, networks ...string) *gobtl.Node {
	t.Helper()
	stuck, free := make(chan struct{}), make(chan struct{})
	server := listen(t, gobtl.Config{SharedMemory: true}, "127.0.0.1:0")
	t.Cleanup(func() { close(free) }) // before the cleanup of listen, which closes the Node
	must(t, server.HandleMessage(1, func(*gobtl.Peer, []byte) {
		stuck <- struct{}{}
		<-free
	}))
	for _, network := range networks {
		peer := dial(t, open(t, gobtl.Config{SharedMemory: network == "shm"}), server.Address())
		if peer.Network() != network {
			t.Fatalf("the network is %s, want %s", peer.Network(), network)
		}
		go func() { _ = peer.Send(t.Context(), 1, nil) }()
		<-stuck
	}
	return server
}

// TestStuckHostInTime: a Dial that tries shared memory and then UDP, both in vain, takes
// HandshakeTimeout, and not twice as long.
func TestStuckHostInTime(t *testing.T) {
	needMemory(t)
	const timeout = 2 * time.Second
	server := stuckNode(t, "shm", "udp")
	client := open(t, gobtl.Config{
		SharedMemory: true, Transport: btl.Config{HandshakeTimeout: timeout},
	})
	began := time.Now()
	_, err := client.Dial(t.Context(), server.Address())
	took := time.Since(began)
	if !errors.Is(err, btl.ErrUnreachable) || took > timeout*7/4 || took < timeout/2 {
		t.Errorf("after %v, of %v: %v", took, timeout, err)
	}
}

// TestStuckMemory: if the peer does not answer over shared memory, a Dial uses UDP.
func TestStuckMemory(t *testing.T) {
	needMemory(t)
	server := stuckNode(t, "shm")
	client := open(t, gobtl.Config{
		SharedMemory: true, Transport: btl.Config{HandshakeTimeout: time.Second},
	})
	if peer := dial(t, client, server.Address()); peer.Network() != "udp" {
		t.Errorf("the network is %s", peer.Network())
	}
}

// TestMemoryWaitsForSetup: a Dial over shared memory waits for Setup longer than HandshakeTimeout.
func TestMemoryWaitsForSetup(t *testing.T) {
	needMemory(t)
	const timeout = 600 * time.Millisecond
	client := open(t, gobtl.Config{
		SharedMemory: true, Transport: btl.Config{HandshakeTimeout: timeout},
	})
	type answer struct {
		peer *gobtl.Peer
		err  error
	}
	answers := make(chan answer, 1)
	server := listen(t, gobtl.Config{SharedMemory: true, Setup: func(n *gobtl.Node) error {
		go func() {
			peer, err := client.Dial(context.Background(), n.Address())
			answers <- answer{peer, err}
		}()
		time.Sleep(2 * timeout)
		return nil
	}}, "127.0.0.1:0")
	a := <-answers
	must(t, a.err)
	if a.peer.Network() != "shm" || a.peer.Address() != server.Address() {
		t.Errorf("the peer is %s over %s", a.peer.Address(), a.peer.Network())
	}
}
