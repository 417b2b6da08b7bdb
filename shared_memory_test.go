package gobtl_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"gobtl"
	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/internal/testenv"
)

// needMemory skips a test on a host without shared memory.
func needMemory(t *testing.T) {
	t.Helper()
	if _, err := fabric.GetInfo(fabric.Hints{Provider: "shm"}); err != nil {
		testenv.Missing(t, "needs shared memory: %v", err)
	}
}

// Which network two Nodes of one host use, and what each knows of the other's address.
func TestMemoryIsUsed(t *testing.T) {
	needMemory(t)
	with, not := gobtl.Config{SharedMemory: true}, gobtl.Config{}
	for _, c := range []struct {
		name             string
		server, dialling gobtl.Config
		want             string
	}{
		{"both", with, with, "shm"},
		{"not the server", not, with, "udp"},
		{"not the client", with, not, "udp"},
		{"beside UDP of Go", gobtl.Config{Provider: "net", SharedMemory: true}, with, "shm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := listen(t, c.server, "127.0.0.1:0")
			client := listen(t, c.dialling, "127.0.0.1:0")
			from := make(chan string, 1)
			must(t, server.Handle("from", func(_ context.Context, req *gobtl.Request) ([]byte, error) {
				from <- req.Peer.Network() + " " + req.Peer.Address()
				return nil, nil
			}))
			peer := dial(t, client, server.Address())
			_, err := peer.Call(t.Context(), "from", nil)
			must(t, err)
			if got := <-from; got != c.want+" "+client.Address() || peer.Network() != c.want ||
				peer.Address() != server.Address() {
				t.Errorf("the server sees %q, the client %q at %q, want %s", got, peer.Network(),
					peer.Address(), c.want)
			}
			if again := dial(t, client, server.Address()); again != peer {
				t.Error("a second Dial makes another connection")
			}
			if all := server.Addresses(); len(all) != 1 {
				t.Errorf("addresses %q", all)
			}
		})
	}
}

// A Node that listens again at the address of one that is gone is reached again.
func TestMemoryComesBack(t *testing.T) {
	needMemory(t)
	cfg := gobtl.Config{SharedMemory: true}
	client, server := open(t, cfg), listen(t, cfg, "127.0.0.1:0")
	address := server.Address()
	for round := range 3 {
		peer := dial(t, client, address)
		if peer.Network() != "shm" {
			t.Fatalf("round %d: %s", round, peer.Network())
		}
		closeNode(t, server)
		select {
		case <-peer.Done():
		case <-time.After(30 * time.Second):
			t.Fatalf("round %d: the peer is not seen to be gone", round)
		}
		if err := peer.Send(t.Context(), 1, nil); !errors.Is(err, btl.ErrPeerClosed) {
			t.Errorf("round %d: %v", round, err)
		}
		server = listen(t, cfg, address)
	}
}
