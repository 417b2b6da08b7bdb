package conn_test

import (
	"bytes"
	"io"
	"testing"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/fabric/mem"
)

// feed is a pair whose client is this test, message by message.
type feed struct {
	*pair
	sent [16]uint64 // by the Conn's id
}

// open opens a Conn and returns the server's end.
func (f *feed) open(t *testing.T, id uint32) *conn.Conn {
	t.Helper()
	must(t, f.client.run.Send(t.Context(), f.ep, tag, message(opens, id, 1<<20, "service")))
	c, err := f.listener.Accept()
	must(t, err)
	return c.(*conn.Conn)
}

// send sends so many bytes more, and returns when they are handled.
func (f *feed) send(t *testing.T, id uint32, bytes int) {
	t.Helper()
	m := message(data, id, f.sent[id], string(make([]byte, bytes)))
	f.sent[id] += uint64(bytes)
	must(t, f.client.run.Send(t.Context(), f.ep, tag, m))
	must(t, f.client.run.Flush(t.Context(), f.ep))
	eventually(t, "the bytes", func() bool { return f.server.Received(f.sent[id], id) })
}

func read(t *testing.T, c *conn.Conn, bytes int) {
	t.Helper()
	_, err := io.ReadFull(c, make([]byte, bytes))
	must(t, err)
}

// A window grows if its limit was used up and all was read, to its bound; it does not for a reader
// that leaves something unread, nor for bytes that nobody reads, nor for a sender that keeps below.
func TestWindowGrows(t *testing.T) {
	const window = 4096
	f := &feed{pair: newPair(t, within(mem.New(mem.Config{})),
		conn.Config{WindowBytes: window, WindowBytesMax: 3 * window}, btl.Config{})}
	is := func(c *conn.Conn, want int, when string) {
		t.Helper()
		if got := c.Window(); got != want {
			t.Errorf("%s: the window is %d, want %d", when, got, want)
		}
	}
	c := f.open(t, 1)
	f.send(t, 1, window)
	is(c, window, "used up, not read")
	read(t, c, window/2)
	is(c, window, "half of it read")
	f.send(t, 1, 1)
	read(t, c, window/2)
	is(c, window, "a byte is left")
	read(t, c, 1)
	is(c, 2*window, "all read")
	f.send(t, 1, 2*window-1)
	read(t, c, 2*window-1)
	f.send(t, 1, window+7)
	read(t, c, window+7)
	is(c, 2*window, "not used up")

	c = f.open(t, 2)
	for range 4 {
		f.send(t, 2, c.Window())
		read(t, c, c.Window())
	}
	is(c, 3*window, "at its bound")
}

// TestGrowthByDefault checks how far a window grows if only its first size is given, and that
// TotalBytes bounds it.
func TestGrowthByDefault(t *testing.T) {
	const window = 4096
	for _, tc := range []struct{ total, want int }{{0, 16 * window}, {3 * window, 3 * window}} {
		f := &feed{pair: newPair(t, within(mem.New(mem.Config{})),
			conn.Config{WindowBytes: window, TotalBytes: int64(tc.total)}, btl.Config{})}
		c := f.open(t, 0)
		for range 8 {
			n := c.Window()
			f.send(t, 0, n)
			read(t, c, n)
		}
		if n := c.Window(); n != tc.want {
			t.Errorf("with TotalBytes %d a window grows to %d, want %d", tc.total, n, tc.want)
		}
	}
}

// Beside many busy Conns no window grows, and one that has grown shrinks, so that all have their
// share. Idle ones hinder nobody, and those that were busy do not for long.
func TestNoGrowthAmongMany(t *testing.T) {
	const window, few = 4096, 8
	f := &feed{pair: newPair(t, within(mem.New(mem.Config{})),
		conn.Config{WindowBytes: window, WindowBytesMax: 8 * window}, btl.Config{})}
	grow := func(c *conn.Conn, id uint32) int {
		n := c.Window()
		f.send(t, id, n)
		read(t, c, n)
		return c.Window()
	}
	c := f.open(t, 0)
	var others []*conn.Conn
	for id := range uint32(few + 1) {
		others = append(others, f.open(t, 1+id))
	}
	busy := func() {
		for i, o := range others {
			f.send(t, uint32(1+i), window/2)
			read(t, o, window/2)
		}
	}
	if n := grow(c, 0); n != 2*window {
		t.Errorf("the window is %d beside idle Conns", n)
	}
	others = others[:few-1]
	busy()
	if n := grow(c, 0); n != 4*window {
		t.Errorf("the window is %d beside %d busy Conns", n, few-1)
	}
	others = others[:few+1]
	busy()
	if n := grow(c, 0); n != window {
		t.Errorf("the window is %d beside %d busy Conns", n, few+1)
	}
	for range 33 { // two epochs
		grow(c, 0)
	}
	if n := grow(c, 0); n <= window {
		t.Errorf("the window is %d long after the others were busy", n)
	}
}

// What is unread when a window shrinks is read as it came, also what came behind a gap.
func TestShrinkKeepsBytes(t *testing.T) {
	const window = 4096
	f := &feed{pair: newPair(t, within(mem.New(mem.Config{})),
		conn.Config{WindowBytes: window}, btl.Config{})}
	c := f.open(t, 0)
	f.send(t, 0, window)
	read(t, c, window)
	f.send(t, 0, 2*window)
	read(t, c, 2*window)
	if c.Window() != 4*window {
		t.Fatal("the window has not grown")
	}
	var want []byte
	for i := range 4 * window {
		want = append(want, byte(i/7))
	}
	from := f.sent[0]
	put := func(begin, end int) {
		m := message(data, 0, from+uint64(begin), string(want[begin:end]))
		must(t, f.client.run.Send(t.Context(), f.ep, tag, m))
		must(t, f.client.run.Flush(t.Context(), f.ep))
	}
	put(0, 3*window+100)
	put(3*window+200, 4*window)
	for id := range uint32(9) {
		o := f.open(t, 1+id)
		f.send(t, 1+id, window/4)
		read(t, o, window/4)
	}
	got := make([]byte, 4*window)
	for at := 0; at < 3*window+50; at += 50 {
		_, err := io.ReadFull(c, got[at:at+50])
		must(t, err)
	}
	if n := c.Window(); n != window {
		t.Errorf("the window is %d", n)
	}
	put(3*window+100, 3*window+200)
	at := (3*window + 50 + 49) / 50 * 50
	_, err := io.ReadFull(c, got[at:])
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Error("other bytes were read than were sent")
	}
}

// Windows of all Conns grow to a bound, of which a Conn leaves some to others, and which one that
// has ended gives back.
func TestGrowthShared(t *testing.T) {
	const window = 4096
	f := &feed{pair: newPair(t, within(mem.New(mem.Config{})),
		conn.Config{WindowBytes: window, GrowthBytes: 8 * window}, btl.Config{})}
	grow := func(c *conn.Conn, id uint32) int {
		n := c.Window()
		f.send(t, id, n)
		read(t, c, n)
		return c.Window()
	}
	c1, c2, c3 := f.open(t, 1), f.open(t, 2), f.open(t, 3)
	if n := grow(c1, 1); n != 2*window {
		t.Errorf("the first one has %d", n)
	}
	if n := grow(c1, 1); n != 2*window {
		t.Errorf("the first one has taken %d, more than a quarter of what is left", n)
	}
	if a, b := grow(c2, 2), grow(c3, 3); a != 2*window || b != 2*window {
		t.Errorf("the others have %d and %d", a, b)
	}
	c4 := f.open(t, 4)
	if n := grow(c4, 4); n != 2*window {
		t.Errorf("the fourth one has %d", n)
	}
	c5 := f.open(t, 5)
	if n := grow(c5, 5); n != window {
		t.Errorf("the fifth one has %d, though one host has half of all growth", n)
	}
	must(t, c1.Close())
	must(t, f.client.run.Send(t.Context(), f.ep, tag, message(fin, 1, f.sent[1], "")))
	must(t, f.client.run.Send(t.Context(), f.ep, tag, message(stop, 1, 0, "")))
	eventually(t, "the end of the first one", func() bool { return f.server.Conns() == 4 })
	if n := grow(c5, 5); n != 2*window {
		t.Errorf("the fifth one has %d though one has ended", n)
	}
}

// Bytes flow through a window that grows, in order.
func TestGrowingStream(t *testing.T) {
	p := overNetwork(t, conn.Config{WindowBytes: 2048, WindowBytesMax: 1 << 20})
	c1, c2 := p.dial(t)
	const total = 4 << 20
	go func() {
		b := make([]byte, total)
		for i := range b {
			b[i] = byte(i / 251)
		}
		if _, err := c1.Write(b); err != nil {
			t.Error(err)
		}
		if err := c1.CloseWrite(); err != nil {
			t.Error(err)
		}
	}()
	got, err := io.ReadAll(c2)
	must(t, err)
	for i := range got {
		if got[i] != byte(i/251) {
			t.Fatalf("byte %d", i)
		}
	}
	if len(got) != total || c2.Window() == 2048 {
		t.Errorf("%d bytes, the window is %d", len(got), c2.Window())
	}
}

// honestWindow returns the window that the Conn of another peer gets after 200 windows of bytes,
// all of them read. between is called after each window.
func honestWindow(t *testing.T, with opener, p *pair, between func()) int {
	t.Helper()
	honest := open(t, with, conn.Config{WindowBytes: 4096}, btl.Config{})
	ep, err := honest.run.Connect(t.Context(), p.server.name)
	must(t, err)
	sends, err := honest.Dial(t.Context(), ep, "service")
	must(t, err)
	accepted, err := p.listener.Accept()
	must(t, err)
	reads := accepted.(*conn.Conn)
	for range 200 {
		n := reads.Window()
		must2(t)(sends.Write(make([]byte, n)))
		read(t, reads, n)
		between()
	}
	return reads.Window()
}

// crowd makes a number of Conns on each of several hosts. The function that crowd returns sends a
// number of bytes through each Conn, and reads them.
func crowd(t *testing.T, pairs []*pair, conns int) func(bytes int) {
	t.Helper()
	var sends, reads []*conn.Conn
	for _, p := range pairs {
		for range conns {
			s, r := p.dial(t)
			sends, reads = append(sends, s), append(reads, r)
		}
	}
	return func(bytes int) {
		t.Helper()
		for i := range sends {
			must2(t)(sends[i].Write(make([]byte, bytes)))
			read(t, reads[i], bytes)
		}
	}
}

// A host whose many idle Conns have grown, and a host with many Conns of little traffic, leave the
// windows of another host as large as they would be without these hosts. So do three hosts with
// busy Conns, and more hosts whose Conns are busy with much less than the Conn of the other host.
func TestGrowthByHost(t *testing.T) {
	const window, grown = 4096, 16 * 4096
	t.Run("idle", func(t *testing.T) {
		with := within(mem.New(mem.Config{}))
		p := newPair(t, with, conn.Config{WindowBytes: window}, btl.Config{})
		for range 250 { // of the 1024 Conns that one peer may have
			sends, reads := p.dial(t)
			for range 8 {
				n := reads.Window()
				must2(t)(sends.Write(make([]byte, n)))
				read(t, reads, n)
			}
		}
		if n := honestWindow(t, with, p, func() {}); n != grown {
			t.Errorf("the window is %d, want %d", n, grown)
		}
	})
	for name, c := range map[string]struct{ hosts, conns, bytes int }{
		"little traffic": {1, 9, window / 64},
		"three hosts":    {3, 4, window / 2},
		"six hosts":      {6, 2, window / 64},
	} {
		t.Run(name, func(t *testing.T) {
			with := within(mem.New(mem.Config{}))
			p := newPair(t, with, conn.Config{WindowBytes: window}, btl.Config{})
			hosts := []*pair{p}
			for range c.hosts - 1 {
				hosts = append(hosts, another(t, with, p, conn.Config{}))
			}
			send := crowd(t, hosts, c.conns)
			if n := honestWindow(t, with, p, func() { send(c.bytes) }); n != grown {
				t.Errorf("the window is %d, want %d", n, grown)
			}
		})
	}
}

// Hosts whose windows have grown leave growth to the windows of another host.
func TestGrowthLeftToHosts(t *testing.T) {
	const window, most = 4096, 128 * 4096
	with := within(mem.New(mem.Config{}))
	cfg := conn.Config{WindowBytes: window, GrowthBytes: most}
	p := newPair(t, with, cfg, btl.Config{})
	for _, o := range []*pair{p, another(t, with, p, cfg), another(t, with, p, cfg)} {
		for range 20 {
			s, r := o.dial(t)
			for range 8 {
				n := r.Window()
				must2(t)(s.Write(make([]byte, n)))
				read(t, r, n)
			}
		}
	}
	if n := honestWindow(t, with, p, func() {}); n < 4*window {
		t.Errorf("the window is %d, want at least %d", n, 4*window)
	}
}
