package conn_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/fabric/mem"
)

// another opens a client of the same server, on another host.
func another(t *testing.T, with opener, p *pair, cfg conn.Config) *pair {
	t.Helper()
	o := &pair{client: open(t, with, cfg, btl.Config{}), server: p.server, listener: p.listener}
	var err error
	o.ep, err = o.client.run.Connect(t.Context(), p.server.name)
	must(t, err)
	return o
}

// Write buffers for peers that grant no credit use at most half of the memory that other hosts do
// not use. A Write above the limit waits, and Writes to other hosts are still buffered.
func TestUnsentBytesOfOneHost(t *testing.T) {
	const most, conns = 16 * 64 << 10, 40
	with := within(mem.New(mem.Config{}))
	p := newPair(t, with, conn.Config{WindowBytes: 1024}, btl.Config{})
	good := another(t, with, p, conn.Config{})
	p.server.SetUnsentMost(most)
	full := make([]byte, 4096)
	for range conns {
		_, c := p.dial(t)
		for c.Unsent() < 48<<10 && c.WriteInBurst(full) {
		}
	}
	if held := p.server.UnsentMemory(); held > most/2 || held < most/4 {
		t.Errorf("the buffers of one host have %d bytes, want at most %d", held, most/2)
	}
	_, c := good.dial(t)
	if !c.WriteInBurst(full) {
		t.Error("a Write to another host is not buffered")
	}
	must(t, p.client.run.Do(t.Context(), func(*btl.Module) error { p.ep.Abort(); return nil }))
	must(t, c.Close())
	eventually(t, "memory to be given back", func() bool { return p.server.UnsentMemory() == 0 })
}

// Hosts whose Conns wait for Accept take turns: the only Conn of a host does not wait for the many
// Conns of another host. The Conns of a host keep their order.
func TestAcceptTurnsOfHosts(t *testing.T) {
	const many = 20
	with := within(mem.New(mem.Config{}))
	p := newPair(t, with, conn.Config{Backlog: 4 * many}, btl.Config{})
	good := another(t, with, p, conn.Config{})
	for i := range many {
		c, err := p.client.Dial(t.Context(), p.ep, "service")
		must(t, err)
		_, err = c.Write([]byte{byte(i)})
		must(t, err)
	}
	one, err := good.client.Dial(t.Context(), good.ep, "service")
	must(t, err)
	_, err = one.Write([]byte{many})
	must(t, err)
	want := []byte{0, many}
	for i := 1; i < many; i++ {
		want = append(want, byte(i))
	}
	for i := range want {
		c, err := p.listener.Accept()
		must(t, err)
		var got [1]byte
		_, err = io.ReadFull(c, got[:])
		must(t, err)
		if got[0] != want[i] {
			t.Fatalf("Accept %d returns Conn %d, want %d", i, got[0], want[i])
		}
	}
}

// The peers of one host open at most half of the Conns that other hosts do not use.
func TestConnsOfOneHost(t *testing.T) {
	const most, total = 8, 16
	with := within(mem.New(mem.Config{}))
	p := newPair(t, with, conn.Config{ConnsMax: most, TotalConns: total}, btl.Config{})
	acceptAll(p.listener)
	all := []*pair{p}
	opened := 0
	for host := range 4 {
		o := p
		if host > 0 {
			o = another(t, with, p, conn.Config{})
			all = append(all, o)
		}
		mine := 0
		for ; mine < 2*total; mine++ {
			_, err := o.client.Dial(t.Context(), o.ep, "service")
			if errors.Is(err, conn.ErrConns) {
				break
			}
			must(t, err)
		}
		if want := min(most, (total-opened)/2+1); mine > want || mine == 0 {
			t.Errorf("host %d of %d has opened %d Conns, want 1 to %d", host, len(all), mine, want)
		}
		opened += mine
	}
}

// The Conn of a Dial that has failed before the peer has answered counts as GoneBytes.
func TestFailedDialsCount(t *testing.T) {
	const dials, most = 50, 10 * 4096
	with := within(mem.New(mem.Config{}))
	client := open(t, with, conn.Config{GoneBytes: most}, btl.Config{})
	silent := open(t, with, conn.Config{Tag: tag + 1}, btl.Config{})
	must(t, silent.run.Do(t.Context(), func(m *btl.Module) error {
		return m.Handle(tag, func(*btl.Endpoint, btl.Tag, []byte) {})
	}))
	ep, err := client.run.Connect(t.Context(), silent.name)
	must(t, err)
	for range dials {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := client.Dial(ctx, ep, "service"); err == nil {
			t.Error("a Dial succeeds without an answer")
		}
		cancel()
	}
	if held, _ := client.Held(""); held == 0 || held > most {
		t.Errorf("%d bytes are counted, want 1 to %d", held, most)
	}
	if n := client.Conns(); n > most/4096 {
		t.Errorf("%d Conns of failed Dials are left, want at most %d", n, most/4096)
	}
}

// A server sends a byte before it refuses the Conn or resets it. The Conn of the failed Dial keeps
// nothing, because nobody can read the byte.
func TestRefusedWithData(t *testing.T) {
	const dials = 50
	for name, end := range map[string]byte{"refuse": refuse, "reset": reset} {
		t.Run(name, func(t *testing.T) {
			with := within(mem.New(mem.Config{}))
			client := open(t, with, conn.Config{}, btl.Config{})
			liar := open(t, with, conn.Config{Tag: tag + 1}, btl.Config{})
			say := func(ep *btl.Endpoint, msg []byte) {
				msg[1] = 0 // the peer has opened the Conn
				f, err := ep.Alloc(tag, len(msg))
				if err != nil {
					t.Error(err)
					return
				}
				copy(f.Bytes(), msg)
				if _, err := ep.Send(ep.Now(), f); err != nil {
					t.Error(err)
				}
			}
			must(t, liar.run.Do(t.Context(), func(m *btl.Module) error {
				return m.Handle(tag, func(ep *btl.Endpoint, _ btl.Tag, b []byte) {
					if b[0] != opens {
						return
					}
					id := binary.LittleEndian.Uint32(b[4:])
					say(ep, message(data, id, 0, "x"))
					last := message(end, id, 0, "")
					if end == refuse {
						last[2] = 1 // no such service
					}
					say(ep, last)
				})
			}))
			ep, err := client.run.Connect(t.Context(), liar.name)
			must(t, err)
			for range dials {
				if _, err := client.Dial(t.Context(), ep, "service"); err == nil {
					t.Error("a Dial succeeds")
				}
			}
			if held, _ := client.Held(""); held != 0 || client.Conns() != 0 || ep.Err() != nil {
				t.Errorf("%d bytes of %d Conns are kept, %v", held, client.Conns(), ep.Err())
			}
		})
	}
}

// A peer that accepts a byte now and then does not keep a Node from closing.
func TestNodeCloseBesideSlowPeer(t *testing.T) {
	p := newPair(t, within(mem.New(mem.Config{})), conn.Config{WindowBytes: 4096}, btl.Config{})
	p.server.SetCloseMost(200 * time.Millisecond)
	must(t, p.client.run.SendBuffered(t.Context(), p.ep, tag, message(opens, 1, 1, "service")))
	c, err := p.listener.Accept()
	must(t, err)
	for c.(*conn.Conn).Unsent() < 8<<10 && c.(*conn.Conn).WriteInBurst(make([]byte, 64)) {
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	feed, stop := context.WithCancel(ctx)
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		for limit := uint64(2); feed.Err() == nil; limit++ {
			_ = p.client.run.SendBuffered(feed, p.ep, tag, message(credit, 1, limit, ""))
			time.Sleep(5 * time.Millisecond)
		}
	}()
	if err := p.server.Node.Close(ctx); err != nil {
		t.Errorf("Close waits for a peer that accepts few bytes: %v", err)
	}
	stop()
	<-fed
}
