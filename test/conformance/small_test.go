package conformance

import (
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
)

// recorded is a domain whose endpoints are remembered.
type recorded struct {
	fabric.Domain
	endpoints []fabric.Endpoint
}

func (d *recorded) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	e, err := d.Domain.OpenEndpoint(cfg)
	d.endpoints = append(d.endpoints, e)
	return e, err
}

// crowd is modules over UDP that send to one, which has the system's default receive buffer and
// reads it only when the others have sent all that they may. Time is made up.
type crowd struct {
	t    *testing.T
	mods []*btl.Module // the receiver is the first
	eps  []*btl.Endpoint
	doms []*recorded
	now  btl.Time
	got  int
}

const crowdTag = 7

func newCrowd(t *testing.T, senders int) *crowd {
	t.Helper()
	c := &crowd{t: t, now: 1}
	for range 1 + senders {
		c.add(btl.Config{MTUBytes: 9000, RecvBufferBytes: -1, PackBytes: 1})
	}
	count := func(*btl.Endpoint, btl.Tag, []byte) { c.got++ }
	if err := c.mods[0].Handle(crowdTag, count); err != nil {
		t.Fatal(err)
	}
	for _, m := range c.mods[1:] {
		ep, err := m.Connect(c.now, c.mods[0].Name())
		if err != nil {
			t.Fatal(err)
		}
		c.eps = append(c.eps, ep)
	}
	for range 2500 { // the path's size is found by then
		c.pass(c.mods, 10*time.Microsecond)
	}
	return c
}

func (c *crowd) add(cfg btl.Config) {
	c.t.Helper()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil {
		c.t.Fatal(err)
	}
	dc, err := cfg.DomainConfig(infos[0])
	if err != nil {
		c.t.Fatal(err)
	}
	dom, err := fabric.Open(infos[0], dc)
	if err != nil {
		c.t.Fatal(err)
	}
	d := &recorded{Domain: dom}
	m, err := btl.Open(d, cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = m.Close() })
	c.mods, c.doms = append(c.mods, m), append(c.doms, d)
}

func (c *crowd) pass(mods []*btl.Module, d time.Duration) {
	c.t.Helper()
	c.now = c.now.Add(d)
	for _, m := range mods {
		if _, err := m.Progress(c.now); err != nil {
			c.t.Fatal(err)
		}
	}
}

// send has each sender send so many messages of a size, and returns the most that all had in flight
// when the receiver looked.
func (c *crowd) send(messages, sizeBytes int) (most int) {
	c.t.Helper()
	left := make([]int, len(c.eps))
	for i := range left {
		left[i] = messages
	}
	data := make([]byte, sizeBytes)
	want := c.got + messages*len(left)
	for range 100_000 {
		if c.got == want {
			return most
		}
		for i, ep := range c.eps {
			for ; left[i] > 0 && c.give(ep, data); left[i]-- {
			}
		}
		for range 8 {
			c.pass(c.mods[1:], time.Microsecond)
		}
		flight := 0
		for _, ep := range c.eps {
			flight += ep.Path().InFlightPackets
		}
		most = max(most, flight)
		c.pass(c.mods[:1], time.Microsecond)
	}
	c.t.Fatalf("%d of %d messages of %d bytes came", c.got, want, sizeBytes)
	return 0
}

func (c *crowd) give(ep *btl.Endpoint, data []byte) bool {
	f, err := ep.Prepare(crowdTag, data)
	if err != nil {
		return false
	}
	if _, err := ep.Send(c.now, f); err != nil {
		c.t.Fatal(err)
	}
	return true
}

func (c *crowd) overruns() (n uint64) {
	for _, e := range c.doms[0].endpoints {
		n += e.(fabric.Overrunner).Overruns()
	}
	return n
}

// TestSmallRoom: nothing is lost of small messages, nor of large ones, nor where they take turns;
// and of small ones several are in flight for each full one that there is room for.
func TestSmallRoom(t *testing.T) {
	for _, senders := range []int{1, 3} {
		c := newCrowd(t, senders)
		room := c.doms[0].endpoints[0].Caps().RecvCapacity
		for range 2 {
			small := c.send(300, 200)
			large := c.send(20, 60_000)
			t.Logf("%d senders, room for %d: %d small ones in flight, %d large ones", senders, room, small,
				large)
			if small <= room+senders {
				t.Errorf("%d senders: %d small packets in flight, room for %d full ones", senders, small, room)
			}
			if n := c.overruns(); n > 0 {
				t.Errorf("%d senders: %d datagrams found no room", senders, n)
			}
		}
	}
}
