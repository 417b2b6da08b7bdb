package conn_test

import (
	"io"
	"testing"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/fabric/mem"
)

// checkTotal fails the test if a Node holds more than total bytes for its Conns, or miscounts them.
func checkTotal(t *testing.T, n *side, total int64) {
	t.Helper()
	if held, sum := n.Total(); held > total || held != sum {
		t.Fatalf("%d bytes are held, %d counted, at most %d", sum, held, total)
	}
}

// A Node that reads nothing holds at most TotalBytes for its Conns. A peer that holds little stays
// connected, and loses nothing.
func TestTotal(t *testing.T) {
	const window, total = 4096, 64 << 10
	with := within(mem.New(mem.Config{}))
	good := newPair(t, with, conn.Config{WindowBytes: window, TotalBytes: total}, btl.Config{})
	g1, g2 := good.dial(t)
	must2(t)(g1.Write([]byte("good ")))
	for range 8 {
		bad := &pair{
			client: open(t, with, conn.Config{}, btl.Config{}), server: good.server,
			listener: good.listener,
		}
		var err error
		bad.ep, err = bad.client.run.Connect(t.Context(), good.server.name)
		must(t, err)
		for range 4 {
			b1, _ := bad.dial(t)
			_, _ = b1.Write(make([]byte, window)) // The last one fails if the server ends the endpoint.
		}
		_ = bad.client.run.Flush(t.Context(), bad.ep) // so does this
		checkTotal(t, good.server, total)
	}
	if held, _ := good.server.Total(); held < total/2 {
		t.Errorf("only %d bytes are held", held)
	}
	must2(t)(g1.Write([]byte("still")))
	must(t, g1.CloseWrite())
	if b, err := io.ReadAll(g2); string(b) != "good still" || err != nil {
		t.Errorf("of the good peer: %q, %v", b, err)
	}
}

// Conns without unread bytes are never ended, and their memory is used for others.
func TestTotalIdle(t *testing.T) {
	const window, total = 4096, 64 << 10
	p := newPair(t, within(mem.New(mem.Config{})),
		conn.Config{WindowBytes: window, TotalBytes: total}, btl.Config{})
	var c1s, c2s []*conn.Conn
	for range 3 * total / window {
		c1, c2 := p.dial(t)
		c1s, c2s = append(c1s, c1), append(c2s, c2)
	}
	for range 2 {
		for i := range c1s {
			must2(t)(c1s[i].Write(make([]byte, window)))
			must(t, p.client.run.Flush(t.Context(), p.ep))
			read(t, c2s[i], window)
			checkTotal(t, p.server, total)
		}
	}
	for i := range c1s {
		must(t, c1s[i].Close())
		must(t, c2s[i].Close())
	}
	eventually(t, "Conns to be over", func() bool { return p.server.Conns() == 0 })
	if held, _ := p.server.Total(); held != 0 {
		t.Errorf("%d bytes are held of no Conns", held)
	}
}
