package mem

import "gobtl/internal/words"

// Verdict is the decision of a Filter about one datagram.
type Verdict uint8

// An unknown value of Verdict counts as Drop.
const (
	Deliver   Verdict = iota // deliver the datagram
	Drop                     // lose it
	Duplicate                // deliver the datagram twice in a row
	Hold                     // keep it until Release
)

var verdictWords = [...]string{
	Deliver:   "deliver",
	Drop:      "drop",
	Duplicate: "duplicate",
	Hold:      "hold",
}

func (v Verdict) String() string { return words.Name(verdictWords[:], int(v), "Verdict") }

// Filter decides what happens to a datagram in transit. A Filter runs inside the sender's Post, and
// must be safe for concurrent use if several goroutines use domains of the Network. The arguments
// "from" and "to" of a Filter are endpoint names, which the Filter must not change. The argument
// "pkt" of a Filter is a copy of the datagram, which the Filter may change but must not retain
// after it returns. A Filter may call the Network's methods.
type Filter func(from, to []byte, pkt []byte) Verdict

type heldDatagram struct {
	from  uint32
	to    *inbox
	bytes []byte
}

// SetFilter sets the Filter for the datagrams that are posted after the call. If the Filter is nil,
// all datagrams are delivered. A datagram for which the previous Filter has returned Hold remains
// held until Release is called.
func (nw *Network) SetFilter(f Filter) {
	if f == nil {
		nw.filter.Store(nil)
		return
	}
	nw.filter.Store(&f)
}

// Held returns the number of datagrams for which a Filter has returned Hold, without those that
// Release has delivered.
func (nw *Network) Held() int {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	return len(nw.held)
}

// Release delivers all datagrams for which a Filter has returned Hold, the oldest first. Release
// does not call the Filter again for the held datagrams. Release returns the number of delivered
// datagrams.
func (nw *Network) Release() int {
	nw.mu.Lock()
	held := nw.held
	nw.held = nil
	nw.mu.Unlock()
	for _, h := range held {
		nw.deliver(h.from, h.to, h.bytes, nil)
	}
	return len(held)
}

func (nw *Network) hold(from uint32, to *inbox, pkt []byte) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.held = append(nw.held, heldDatagram{from: from, to: to, bytes: append([]byte(nil), pkt...)})
}

func (nw *Network) deliver(from uint32, to *inbox, head, tail []byte) {
	result := putClosed
	if to != nil {
		result = to.put(from, head, tail)
	}
	switch result {
	case putDone:
		nw.delivered.Add(1)
	case putFull:
		nw.overflowed.Add(1)
	case putClosed:
		nw.unreachable.Add(1)
	}
}
