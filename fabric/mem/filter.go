package mem

import "fmt"

// Verdict is what a Filter decides about one datagram.
type Verdict uint8

// The verdicts. Any other value is Drop.
const (
	Deliver   Verdict = iota // let it pass
	Drop                     // lose it
	Duplicate                // deliver it twice, one after the other
	Hold                     // keep it until Release
)

func (v Verdict) String() string {
	switch v {
	case Deliver:
		return "deliver"
	case Drop:
		return "drop"
	case Duplicate:
		return "duplicate"
	case Hold:
		return "hold"
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// Filter decides what happens to a datagram on its way. It runs inside the sender's Post, so
// filters for domains on several goroutines must be safe for that. from and to are endpoint names,
// not to be altered. pkt is a copy that the filter may alter in place (that is corruption) but not
// keep. It may call the Network's methods.
type Filter func(from, to []byte, pkt []byte) Verdict

type heldDatagram struct {
	from  uint32
	to    *inbox
	bytes []byte
}

// SetFilter sets the filter for the datagrams posted from now on; nil lets all pass. Held datagrams
// stay held.
func (nw *Network) SetFilter(f Filter) {
	if f == nil {
		nw.filter.Store(nil)
		return
	}
	nw.filter.Store(&f)
}

// Held returns the number of datagrams that wait for Release.
func (nw *Network) Held() int {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	return len(nw.held)
}

// Release delivers every held datagram, the oldest first, without asking the filter again. It
// returns how many there were.
func (nw *Network) Release() int {
	nw.mu.Lock()
	held := nw.held
	nw.held = nil
	nw.mu.Unlock()
	// Outside the lock: delivering wakes waiters, and a filter may be calling us.
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

// deliver puts a datagram into its receiver's inbox, or counts why not.
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
