package conn_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/fabric/mem"
)

// acceptAll takes all Conns of a Listener and reads nothing.
func acceptAll(l *conn.Listener) (all chan net.Conn) {
	all = make(chan net.Conn, 4096)
	go func() {
		defer close(all)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all <- c
		}
	}()
	return all
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("no end to waiting for " + what)
		}
	}
}

// A Conn counts until what has come by it is read: one that its peer has filled and ended does, and
// so does one whose peer has gone and come again.
func TestUnreadCounts(t *testing.T) {
	const most, window = 4, 4096
	for _, again := range []bool{false, true} {
		p := newPair(t, within(mem.New(mem.Config{})),
			conn.Config{ConnsMax: most, WindowBytes: window}, btl.Config{})
		accepted := acceptAll(p.listener)
		var id uint32
		fill := func() {
			id++
			for _, b := range [][]byte{
				message(opens, id, window, "service"),
				message(data, id, 0, string(make([]byte, window))),
				message(fin, id, window, ""), message(stop, id, 0, ""),
			} {
				if err := p.client.run.Send(t.Context(), p.ep, tag, b); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 3 {
			for range 2 * most {
				fill()
			}
			if err := p.client.run.Flush(t.Context(), p.ep); err != nil {
				t.Fatal(err)
			}
			if again {
				abort(t, p)
				eventually(t, "the end", func() bool { return p.server.Conns() == 0 })
				var err error
				if p.ep, err = p.client.run.Connect(t.Context(), p.server.name); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := p.listener.Close(); err != nil {
			t.Fatal(err)
		}
		var all []net.Conn
		for c := range accepted {
			all = append(all, c)
		}
		if len(all) != most {
			t.Errorf("again %v: %d Conns hold unread bytes, want %d", again, len(all), most)
		}
		for _, c := range all {
			n, err := io.Copy(io.Discard, c)
			if n != window || err != nil {
				t.Errorf("again %v: %d bytes, %v", again, n, err)
			}
		}
		eventually(t, "Conns to be over", func() bool { return p.server.Conns() == 0 })
		if bytes, _ := p.server.Held("service"); bytes != 0 {
			t.Errorf("again %v: %d bytes are held of Conns that were read", again, bytes)
		}
	}
}

// abort ends the client's endpoint.
func abort(t *testing.T, p *pair) {
	t.Helper()
	err := p.client.run.Do(t.Context(), func(*btl.Module) error { p.ep.Abort(); return nil })
	if err != nil {
		t.Fatal(err)
	}
}

// Of Conns that have ended no more is kept than GoneBytes, nothing that another peer has sent is
// dropped for it, and a Read of one that was dropped tells why it has ended.
func TestGoneBytes(t *testing.T) {
	const window = 8192
	with := within(mem.New(mem.Config{}))
	cfg := conn.Config{ConnsMax: 64, WindowBytes: window, GoneBytes: 8 * window}
	p := newPair(t, with, cfg, btl.Config{})
	good := &pair{client: open(t, with, cfg, btl.Config{}), server: p.server, listener: p.listener}
	var err error
	if good.ep, err = good.client.run.Connect(t.Context(), p.server.name); err != nil {
		t.Fatal(err)
	}
	c1, c2 := good.dial(t)
	must2(t)(c1.Write([]byte("good")))
	must(t, c1.CloseWrite())
	must(t, good.client.run.Flush(t.Context(), good.ep))
	abort(t, good)
	var all []*conn.Conn
	for range 32 {
		b1, b2 := p.dial(t)
		must2(t)(b1.Write(make([]byte, window)))
		all = append(all, b2)
	}
	must(t, p.client.run.Flush(t.Context(), p.ep))
	abort(t, p)
	eventually(t, "the end", func() bool { return p.server.Conns() == 0 })
	if held, _ := p.server.Held(""); held > cfg.GoneBytes || held == 0 {
		t.Errorf("%d bytes are held, at most %d", held, cfg.GoneBytes)
	}
	dropped := 0
	for _, c := range all {
		n, err := io.Copy(io.Discard, c)
		if n == 0 {
			dropped++
		} else if n != window {
			t.Errorf("%d bytes of %d", n, window)
		}
		if err == nil {
			t.Error("a Conn whose peer has gone in the middle ends as if it were whole")
		}
	}
	if dropped < 20 || dropped == len(all) {
		t.Errorf("%d of %d were dropped", dropped, len(all))
	}
	got, err := io.ReadAll(c2)
	if !bytes.Equal(got, []byte("good")) || err != nil {
		t.Errorf("of the other peer: %q, %v", got, err)
	}
}

func must2(t *testing.T) func(int, error) {
	return func(_ int, err error) {
		t.Helper()
		must(t, err)
	}
}

// A peer that opens Conns which nobody accepts leaves places for others, and one that has gone has
// none.
func TestBacklogShared(t *testing.T) {
	const backlog = 8
	with := within(mem.New(mem.Config{}))
	p := newPair(t, with, conn.Config{Backlog: backlog}, btl.Config{})
	p.client.SetDialMost(0)
	for range 3 { // it comes again
		n := 0
		var err error
		for ; n < 2*backlog && err == nil; n++ {
			_, err = p.client.Dial(t.Context(), p.ep, "service")
		}
		if !errors.Is(err, conn.ErrBacklog) || n > backlog/2+2 {
			t.Fatalf("Conn %d: %v", n, err)
		}
		good := open(t, with, conn.Config{}, btl.Config{})
		ep, err := good.run.Connect(t.Context(), p.server.name)
		must(t, err)
		c, err := good.Dial(t.Context(), ep, "service")
		must(t, err)
		must(t, c.Close())
		abort(t, &pair{client: good, ep: ep})
		abort(t, p)
		eventually(t, "the backlog to be free", func() bool {
			_, waiting := p.server.Held("service")
			return waiting == 0
		})
		p.ep, err = p.client.run.Connect(t.Context(), p.server.name)
		must(t, err)
	}
}

// What is longer than any message of a Conn is refused before there is memory for it.
func TestTooLong(t *testing.T) {
	p := newPair(t, within(mem.New(mem.Config{})), conn.Config{}, btl.Config{})
	err := p.client.run.Send(t.Context(), p.ep, tag, make([]byte, 1<<20))
	if err == nil {
		err = p.client.run.Flush(t.Context(), p.ep)
	}
	if !errors.Is(err, btl.ErrUnwanted) {
		t.Errorf("%v, want %v", err, btl.ErrUnwanted)
	}
	c1, c2 := p.dial(t)
	go func() { _, _ = c1.Write(make([]byte, 256<<10)) }()
	if _, err := io.ReadFull(c2, make([]byte, 256<<10)); err != nil {
		t.Error(err)
	}
}
