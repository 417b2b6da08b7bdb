package conn_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/fabric/mem"
	"gobtl/frag"
)

// orphan closes the server's side of a new Conn, whose peer has no room for the last bytes. orphan
// returns both sides, and the number of bytes written.
func orphan(t *testing.T, p *pair) (reader, closed *conn.Conn, written int) {
	t.Helper()
	c1, c2 := p.dial(t)
	must(t, c1.SetReadDeadline(time.Now().Add(20*time.Second)))
	written = fill(t, c2)
	must(t, c2.Close())
	return c1, c2, written
}

// A closed Conn keeps only its unsent bytes. If the peer reads nothing, these bytes are dropped
// after a time, and the peer gets an error instead of an end. Other Conns of the peer go on.
func TestOrphanTime(t *testing.T) {
	p := newPair(t, within(mem.New(mem.Config{})), conn.Config{WindowBytes: 4096}, btl.Config{})
	d1, d2 := p.dial(t)
	p.server.SetOrphanTime(100 * time.Millisecond)
	reader, closed, written := orphan(t, p)
	if kept := closed.BufferBytes(); kept > written {
		t.Errorf("%d bytes are kept for at most %d", kept, written)
	}
	eventually(t, "the end of the orphan", func() bool { return p.server.Conns() == 1 })
	if n, err := io.Copy(io.Discard, reader); n != 4096 || !errors.Is(err, conn.ErrReset) {
		t.Errorf("%d bytes, %v, want a window and ErrReset", n, err)
	}
	if kept := closed.BufferBytes(); kept != 0 {
		t.Errorf("%d bytes are kept after the end", kept)
	}
	must2(t)(d2.Write([]byte("other")))
	read(t, d1, len("other"))
}

// A closed Conn goes on for as long as its peer reads, however slowly.
func TestOrphanSlow(t *testing.T) {
	p := newPair(t, within(mem.New(mem.Config{})), conn.Config{WindowBytes: 4096}, btl.Config{})
	reader, closed, written := orphan(t, p)
	for sum := 0; sum < written; sum += 1024 {
		for range 4 { // the time is over with the fifth
			p.server.Sweep()
		}
		before := closed.Unsent()
		read(t, reader, 1024)
		if before > 0 {
			eventually(t, "credit", func() bool { return closed.Unsent() < before })
		}
	}
	if n, err := reader.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, %v after all bytes", n, err)
	}
	unread, _, _ := orphan(t, p)
	eventually(t, "the end of the orphan", func() bool { return p.server.Sweep() == 0 })
	if _, err := io.Copy(io.Discard, unread); !errors.Is(err, conn.ErrReset) {
		t.Errorf("%v, want ErrReset", err)
	}
}

// Closed Conns hold at most GoneBytes of unsent bytes. The host that holds the most loses its own.
func TestOrphanBytes(t *testing.T) {
	const most = 8
	with := within(mem.New(mem.Config{}))
	cfg := conn.Config{WindowBytes: 4096, GoneBytes: most * 9000}
	p := newPair(t, with, cfg, btl.Config{})
	good := &pair{client: open(t, with, cfg, btl.Config{}), server: p.server, listener: p.listener}
	var err error
	good.ep, err = good.client.run.Connect(t.Context(), p.server.name)
	must(t, err)
	reader, _, written := orphan(t, good)
	var all []*conn.Conn
	for range 4 * most {
		c, _, _ := orphan(t, p)
		all = append(all, c)
	}
	if held, _ := p.server.Held(""); held > cfg.GoneBytes || held < cfg.GoneBytes/2 {
		t.Errorf("%d bytes are held, at most %d", held, cfg.GoneBytes)
	}
	if got, err := io.ReadAll(reader); len(got) != written || err != nil {
		t.Errorf("of the good peer: %d of %d bytes, %v", len(got), written, err)
	}
	dropped := 0
	for _, c := range all {
		got, err := io.ReadAll(c)
		if errors.Is(err, conn.ErrReset) {
			dropped++
		} else if err != nil || !bytes.Equal(got, make([]byte, written)) {
			t.Errorf("%d of %d bytes, %v", len(got), written, err)
		}
	}
	if dropped < 2*most || dropped == len(all) {
		t.Errorf("%d of %d were dropped", dropped, len(all))
	}
	eventually(t, "Conns to be over", func() bool { return p.server.Conns() == 0 })
	if held, _ := p.server.Held(""); held != 0 {
		t.Errorf("%d bytes are held of no Conns", held)
	}
}

// A Dial ends before its peer knows the Conn, and its Conn is dropped while the message that opens
// the Conn is lost and sent again. The peer's Conn ends nevertheless.
func TestResetOfLostOpen(t *testing.T) {
	network := mem.New(mem.Config{})
	cfg := conn.Config{WindowBytes: 4096, GoneBytes: 4096} // one Conn without bytes
	p := newPair(t, within(network), cfg, btl.Config{})
	l, err := p.server.Listen("lost")
	must(t, err)
	var lost [2]atomic.Int32 // packets of each service
	var found atomic.Bool    // the network carries the packets of the first service
	names := [2]string{"lost", "never"}
	network.SetFilter(func(_, _, pkt []byte) mem.Verdict {
		for i, name := range names {
			if bytes.Contains(pkt, []byte(name)) && (i > 0 || !found.Load()) {
				lost[i].Add(1)
				return mem.Drop
			}
		}
		return mem.Deliver
	})
	for i, name := range names { // the second Conn takes the place of the first one
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := p.client.Dial(ctx, p.ep, name)
			ended <- err
		}()
		eventually(t, "the open message to be lost", func() bool { return lost[i].Load() > 0 })
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	eventually(t, "the first Conn to be dropped", func() bool { return p.client.Conns() == 1 })
	time.Sleep(10 * time.Millisecond) // a reset message would arrive meanwhile
	found.Store(true)
	c, err := l.Accept()
	must(t, err)
	must(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, conn.ErrReset) {
		t.Errorf("%d bytes, %v, want ErrReset", n, err)
	}
	eventually(t, "the peer's Conn to be over", func() bool { return p.server.Conns() == 0 })
	network.SetFilter(nil)
}

// A closed Conn with unsent bytes that its peer resets does not let the peer open more than
// ConnsMax Conns, and leaves no count of the peer's address behind.
func TestConnsMaxAfterOrphans(t *testing.T) {
	const most, orphans = 2, 3
	with := within(mem.New(mem.Config{}))
	p := newPair(t, with, conn.Config{WindowBytes: 4096, ConnsMax: most}, btl.Config{})
	bad := another(t, with, p, conn.Config{WindowBytes: 4096})
	for id := range uint32(orphans) {
		orphan(t, bad)
		msg := message(reset, id+1, 0, "")
		must(t, bad.client.run.SendBuffered(t.Context(), bad.ep, tag, msg))
		eventually(t, "the end of the orphan", func() bool { return p.server.Conns() == 0 })
	}
	if n := p.server.EndedAddresses(); n != 0 {
		t.Errorf("%d addresses are counted of no ended Conns", n)
	}
	acceptAll(p.listener)
	for opened := range most + orphans {
		_, err := bad.client.Dial(t.Context(), bad.ep, "service")
		if errors.Is(err, conn.ErrConns) != (opened >= most) {
			t.Fatalf("Conn %d of at most %d: %v", opened+1, most, err)
		}
	}
}

// A closed Conn of which the peer never acknowledges the last message does not stay for ever. It
// has ten times as long as a Conn without credit, because the message may wait behind others.
func TestOrphanNeverAcknowledged(t *testing.T) {
	network := mem.New(mem.Config{})
	p := newPair(t, within(network), conn.Config{}, btl.Config{PeerTimeout: time.Minute})
	c1, c2 := p.dial(t)
	must2(t)(c1.Write([]byte("first")))
	read(t, c2, len("first"))
	eventually(t, "the peer to acknowledge", func() bool { return c2.InFlight() == 0 })
	name, err := frag.ParseName(p.client.name)
	must(t, err)
	network.SetFilter(func(_, to, _ []byte) mem.Verdict {
		if string(to) == string(name.Data) || string(to) == string(name.Command) {
			return mem.Drop
		}
		return mem.Deliver
	})
	defer network.SetFilter(nil)
	must2(t)(c2.Write([]byte("last")))
	must(t, c2.Close())
	if c2.InFlight() == 0 {
		t.Fatal("no message is in flight")
	}
	sweeps := 0
	for p.server.Sweep() > 0 && sweeps < 10*conn.OrphanSentSweeps {
		sweeps++
	}
	if sweeps < conn.OrphanSentSweeps || sweeps > conn.OrphanSentSweeps+2 {
		t.Errorf("dropped after %d sweeps, want %d", sweeps, conn.OrphanSentSweeps)
	}
}
