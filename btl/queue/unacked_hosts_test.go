package queue

import (
	"fmt"
	"testing"

	"gobtl/btl"
	"gobtl/internal/byhost"
)

// sending is a Queue without a module, whose peers let it send any number of bytes.
type sending struct {
	*Queue
	hosts map[*btl.Endpoint]string
}

func newSending(bytes, totalBytes int64) *sending {
	s := &sending{hosts: map[*btl.Endpoint]string{}}
	s.Queue = newReady(0, func(ep *btl.Endpoint) string { return s.hosts[ep] })
	s.to, s.cfg.Bytes = map[*btl.Endpoint]*sender{}, bytes
	s.unacked.bound = byhost.NewBound(totalBytes, bytes/freeParts)
	return s
}

// connect adds a peer.
func (s *sending) connect(host string) *sender {
	ep := new(btl.Endpoint)
	to := &sender{peer: ep}
	to.turn.What = to
	s.hosts[ep], s.to[ep] = host, to
	s.allow(ep, 1<<50, 1<<50)
	return to
}

// send begins a Send, which waits unless the result has the field "may".
func (s *sending) send(to *sender, cost int64) *waiter {
	w := &waiter{cost: cost}
	to.waiting = append(to.waiting, w)
	s.goOn(to)
	return w
}

// flood begins Sends to a peer until one waits, and returns the bytes of the others.
func (s *sending) flood(to *sender, cost int64) (sent int64) {
	for s.send(to, cost).may {
		sent += cost
	}
	return sent
}

const (
	testBytes, testTotal, testCost = 128 << 10, 1 << 20, 32 << 10
	testMany                       = 100
)

// Peers of one host that acknowledge nothing hold at most TotalBytes, and one small message each. A
// peer of another host goes on as if they did not exist.
func TestUnackedOfOneHost(t *testing.T) {
	s := newSending(testBytes, testTotal)
	held := int64(0)
	for range testMany {
		held += s.flood(s.connect("silent"), testCost)
	}
	if most := int64(testTotal + testCost + testMany*testBytes/freeParts); held < testTotal ||
		held > most {
		t.Errorf("%d bytes are not acknowledged, want %d to %d", held, testTotal, most)
	}
	honest := s.connect("honest")
	if n := s.flood(honest, testCost); n != testBytes {
		t.Errorf("%d bytes are sent to a peer of another host, want %d", n, testBytes)
	}
	for i := range 1000 {
		next := s.send(honest, testCost)
		oldest := honest.waiting[0]
		if oldest.may {
			t.Fatal("a Send goes on twice")
		}
		if s.acknowledged(honest.peer, testCost); !oldest.may || next.may {
			t.Fatalf("message %d does not go on when an earlier one is acknowledged", i)
		}
	}
}

// A hundred hosts that acknowledge nothing hold less than twice TotalBytes, and one message each.
// Another host may always have one message of any size, and its peers share the turns of the host.
func TestUnackedOfManyHosts(t *testing.T) {
	s := newSending(testBytes, testTotal)
	held := int64(0)
	for i := range testMany {
		for range 2 {
			held += s.flood(s.connect(fmt.Sprint("silent ", i)), testCost+1)
		}
	}
	if most := int64(2*testTotal + (testMany+1)*(testCost+1)); held > most {
		t.Errorf("%d bytes are not acknowledged, want at most %d", held, most)
	}
	one, two := s.connect("honest"), s.connect("honest")
	size := int64(10 * testTotal)
	for i := range 1000 {
		first := s.send(one, size)
		second := s.send(two, size)
		if !first.may || second.may {
			t.Fatalf("round %d: %v, %v, want the first message and not the second", i, first.may,
				second.may)
		}
		if s.acknowledged(one.peer, size); !second.may {
			t.Fatalf("round %d: the second message does not go on when the first is acknowledged", i)
		}
		s.acknowledged(two.peer, size)
	}
}

// What becomes free goes to all hosts that wait, and not only to the host with many peers.
func TestUnackedTurnsOfHosts(t *testing.T) {
	s := newSending(testBytes, testTotal)
	large := s.connect("large")
	const size = 10 * testTotal
	if !s.send(large, size).may {
		t.Fatal("a large message does not go out alone")
	}
	waits := func(host string) *waiter {
		to := s.connect(host)
		for {
			if w := s.send(to, testCost+1); !w.may {
				return w
			}
		}
	}
	var many []*waiter
	for range testMany {
		many = append(many, waits("many"))
	}
	other := waits("other")
	s.acknowledged(large.peer, size)
	woken := 0
	for _, w := range many {
		if w.may {
			woken++
		}
	}
	if !other.may || woken < testTotal/testCost/2 || woken > testTotal/testCost {
		t.Errorf("of one peer goes on %v, and %d of the other host", other.may, woken)
	}
}

// A Send that is given up leaves its bytes to others. The messages to an ended endpoint count until
// the transport has given up the last of them, and then nothing is left of the endpoint.
func TestUnackedOfEnded(t *testing.T) {
	s := newSending(testBytes, testTotal)
	to := s.connect("host")
	sent, given := s.send(to, testCost+1), s.send(to, testCost+1)
	held := to.unacked.Held()
	s.takeBack(to.peer, given)
	if n := to.unacked.Held(); !sent.may || held != 2*(testCost+1) || n != testCost+1 {
		t.Errorf("%d bytes are counted, and %d when a Send is given up", held, n)
	}
	full := s.connect("full")
	s.unacked.bound.Add(&full.unacked, 10*testTotal)
	last := s.send(to, testCost+1)
	if last.may {
		t.Error("a host goes on beyond its share")
	}
	s.lost(to.peer)
	if s.to[to.peer] == nil || s.unacked.bound.Counted() != 10*testTotal+testCost+1 {
		t.Error("a message that the transport stores no longer counts")
	}
	s.acknowledged(to.peer, testCost+1)
	if s.to[to.peer] != nil || s.unacked.bound.Counted() != 10*testTotal || last.may ||
		s.unacked.turns.Members("host") != 0 || s.unacked.turns.Waiting() != 0 {
		t.Error("something is left of an endpoint that has ended")
	}
}

// A message that is acknowledged while others wait costs no allocation.
func TestUnackedAllocations(t *testing.T) {
	s := newSending(testBytes, testTotal)
	for i := range testMany {
		for range 2 {
			s.flood(s.connect(fmt.Sprint("silent ", i)), testCost+1)
		}
	}
	to, w := s.connect("honest"), new(waiter)
	to.waiting = make([]*waiter, 0, 2000)
	if n := testing.AllocsPerRun(1000, func() {
		*w = waiter{cost: testCost}
		to.waiting = append(to.waiting, w)
		s.goOn(to)
		s.acknowledged(to.peer, testCost)
	}); n != 0 {
		t.Errorf("a message costs %v allocations", n)
	}
}
