package conn_test

import (
	"errors"
	"io"
	"runtime"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/fabric/mem"
	"gobtl/internal/testenv"
)

// A side opens ConnsMax Conns to a peer and no more, though the peer would take them; those that
// the peer opens to it do not count, and one that is over makes room.
func TestDialerLimit(t *testing.T) {
	with := within(mem.New(mem.Config{}))
	p := &pair{
		client: open(t, with, conn.Config{ConnsMax: 2}, btl.Config{}),
		server: open(t, with, conn.Config{ConnsMax: 8}, btl.Config{}),
	}
	var err error
	if p.listener, err = p.server.Listen("service"); err != nil {
		t.Fatal(err)
	}
	if p.ep, err = p.client.run.Connect(t.Context(), p.server.name); err != nil {
		t.Fatal(err)
	}
	back := &pair{client: p.server, server: p.client}
	if back.listener, err = back.server.Listen("service"); err != nil {
		t.Fatal(err)
	}
	if back.ep, err = back.client.run.Connect(t.Context(), back.server.name); err != nil {
		t.Fatal(err)
	}
	back.dial(t)
	c1, c2 := p.dial(t)
	p.dial(t)
	full := func() {
		t.Helper()
		_, err := p.client.Dial(t.Context(), p.ep, "service")
		if !errors.Is(err, conn.ErrConns) {
			t.Fatalf("one more: %v", err)
		}
		if n := p.server.Conns(); n != 3 {
			t.Fatalf("the other side has %d", n)
		}
	}
	full()
	if err := errors.Join(c1.Close(), c2.Close()); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); p.client.Conns() > 2 || p.server.Conns() > 2; runtime.Gosched() {
		if time.Since(began) > 10*time.Second {
			t.Fatal("the Conn that is closed is not over")
		}
	}
	p.dial(t)
	full()
}

// Reads and Writes allocate nothing but what a Runner needs to sleep.
func TestAllocations(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector drops what a sync.Pool has")
	}
	c1, c2 := overNetwork(t, conn.Config{}).dial(t)
	const rounds = 64
	var question, answer [64]byte
	once := func() {
		for range rounds {
			_, err1 := c1.Write(question[:])
			_, err2 := io.ReadFull(c2, answer[:])
			_, err3 := c2.Write(answer[:])
			_, err4 := io.ReadFull(c1, question[:])
			if err := errors.Join(err1, err2, err3, err4); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 20 {
		once()
	}
	if n := testing.AllocsPerRun(20, once); n >= 2*rounds {
		t.Errorf("%v allocations in %d calls", n, 4*rounds)
	}
}
