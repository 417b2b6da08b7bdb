package sim_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
)

func newNetwork(tb testing.TB, cfg sim.Config) *sim.Network {
	tb.Helper()
	nw, err := sim.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return nw
}

// arrival is a datagram that a station has received.
type arrival struct {
	at   mono.Time
	data []byte
}

// station is a node with one endpoint and the simplest process. The process receives datagrams and
// posts the buffers again. The lower half of the buffers is for receiving.
type station struct {
	tb       testing.TB
	nw       *sim.Network
	node     *sim.Node
	dom      fabric.Domain
	ep       fabric.Endpoint
	arena    fabric.Arena
	out      [16]fabric.Completion
	again    [1]fabric.Buf // a field, to post a buffer without an allocation
	free     []fabric.Buf
	addrs    map[*station]fabric.Addr
	arrived  []arrival
	received int
	errors   int                 // completions with an Errno
	spent    []fabric.Buf        // buffers of sends, in the order of completion
	passes   []mono.Time         // instants of all passes, if keep is set
	deadline mono.Time           // result of Deadline
	keep     bool                // record arrived and passes
	each     func(*station)      // called in each pass
	fail     error               // result of Progress
	sizes    func(sizeBytes int) // called for each datagram
}

const stationBuffers = 128

func newStation(tb testing.TB, nw *sim.Network, name string) *station {
	tb.Helper()
	s := &station{tb: tb, nw: nw, node: nw.Node(name), keep: true}
	s.open()
	return s
}

// open opens the domain and runs the station, for the first time or again.
func (s *station) open() {
	s.tb.Helper()
	dom, err := s.node.Open(fabric.DomainConfig{Buffers: stationBuffers})
	if err != nil {
		s.tb.Fatal(err)
	}
	s.dom, s.arena = dom, dom.Arena()
	if s.ep, err = dom.OpenEndpoint(fabric.EndpointConfig{}); err != nil {
		s.tb.Fatal(err)
	}
	s.addrs = make(map[*station]fabric.Addr)
	s.deadline = mono.Never
	s.free = nil
	var recv []fabric.Buf
	for b := range fabric.Buf(stationBuffers) {
		if b < stationBuffers/2 {
			recv = append(recv, b)
		} else {
			s.free = append(s.free, b)
		}
	}
	if _, err := s.ep.Recv(recv); err != nil {
		s.tb.Fatal(err)
	}
	s.node.Run(s)
}

func (s *station) Deadline() mono.Time { return s.deadline }

func (s *station) Progress(now mono.Time) (int, error) {
	if s.keep {
		s.passes = append(s.passes, now)
	}
	if s.deadline <= now {
		s.deadline = mono.Never
	}
	n, err := s.ep.Poll(s.out[:])
	if err != nil {
		return 0, err
	}
	for i := range s.out[:n] {
		s.complete(now, &s.out[i])
	}
	if s.each != nil {
		s.each(s)
	}
	return n, s.fail
}

func (s *station) complete(now mono.Time, c *fabric.Completion) {
	if c.Errno != 0 {
		s.errors++
	}
	if c.Op == fabric.OpSend {
		s.free = append(s.free, c.Buf)
		if s.keep {
			s.spent = append(s.spent, c.Buf)
		}
		return
	}
	if c.Errno == 0 {
		s.received++
		if s.sizes != nil {
			s.sizes(int(c.Len))
		}
		if s.keep {
			data := s.arena.Bytes(c.Buf)
			data = data[:min(int(c.Len), len(data))]
			s.arrived = append(s.arrived, arrival{now, bytes.Clone(data)})
		}
	}
	s.again[0] = c.Buf
	if _, err := s.ep.Recv(s.again[:]); err != nil {
		s.tb.Fatal(err)
	}
}

func (s *station) addr(to *station) fabric.Addr {
	if _, known := s.addrs[to]; !known {
		a, err := s.dom.Insert(sim.Port{Node: to.node.Index()}.Name())
		if err != nil {
			s.tb.Fatal(err)
		}
		s.addrs[to] = a
	}
	return s.addrs[to]
}

// try posts data once.
func (s *station) try(to *station, data []byte) error {
	s.tb.Helper()
	if len(s.free) == 0 {
		s.tb.Fatal("the station is out of buffers")
	}
	b := s.free[len(s.free)-1]
	copy(s.arena.Bytes(b), data)
	_, err := s.ep.Post([]fabric.Send{{To: s.addr(to), Buf: b, Len: uint32(len(data))}})
	if err == nil && len(data) > s.ep.Caps().InjectBytes {
		s.free = s.free[:len(s.free)-1]
	}
	return err
}

// send posts data, which must be accepted.
func (s *station) send(to *station, data []byte) {
	s.tb.Helper()
	for again := true; again; {
		err := s.try(to, data)
		again = errors.Is(err, fabric.ErrAgain)
		if err != nil && !again {
			s.tb.Fatal(err)
		}
	}
}

// pair returns two stations on a network. The argument p is the path from a to b.
func pair(tb testing.TB, cfg sim.Config, p sim.Path) (nw *sim.Network, a, b *station) {
	tb.Helper()
	nw = newNetwork(tb, cfg)
	a, b = newStation(tb, nw, "a"), newStation(tb, nw, "b")
	nw.SetPath(a.node, b.node, p)
	nw.RunUntil(1) // the first passes
	return nw, a, b
}

// traffic sends count datagrams of sizeBytes from a to b, one every gap, and waits for their
// arrival. The first four bytes are the datagram's number.
func traffic(nw *sim.Network, a, b *station, count, sizeBytes int, gap time.Duration) {
	data := make([]byte, sizeBytes)
	for i := range count {
		if sizeBytes >= 4 {
			data[0], data[1], data[2], data[3] = byte(i>>24), byte(i>>16), byte(i>>8), byte(i)
		}
		a.send(b, data)
		nw.RunUntil(nw.Now().Add(gap))
	}
	nw.RunUntil(nw.Now().Add(3 * time.Second))
}

// settled fails unless every datagram is accounted for.
func settled(tb testing.TB, nw *sim.Network) {
	tb.Helper()
	c := nw.Counts()
	ended := c[sim.KindDelivered] + c.Dropped()
	if in := c.Entered(); in != ended+uint64(nw.InFlight()+nw.Queued()) {
		tb.Errorf("%d datagrams entered; %d were delivered and %d dropped, %d are in flight, %d wait",
			in, c[sim.KindDelivered], c.Dropped(), nw.InFlight(), nw.Queued())
	}
}

// number is the number of a datagram of traffic.
func number(data []byte) int {
	return int(data[0])<<24 | int(data[1])<<16 | int(data[2])<<8 | int(data[3])
}
