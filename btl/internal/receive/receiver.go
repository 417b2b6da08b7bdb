package receive

import (
	"errors"
	"fmt"
	"time"

	"gobtl/btl/internal/keep"
	"gobtl/btl/internal/landing"
	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/mono"
)

// Handler is the function that is called with each received fragment of a tag. The data of the
// fragment is valid only until the handler returns.
type Handler func(ep *peer.Endpoint, tag uint8, data []byte)

// Receiver processes the received packets of all endpoints of a module.
type Receiver struct {
	*peer.Services

	Count      *stats.Values // of Services
	handlers   [256]Handler
	mostBytes  [256]uint32 // maximum size of a fragment that arrives in chunks; 0: no limit
	Keeping    keep.Store  // received data that handlers have kept
	Arrivals   keep.Queue[*peer.Endpoint]
	Direct     DirectChunks
	booksFirst bool // ReceiveFast is off, so that a reply carries the ACK of its request
	records    Records
	asides     Asides
	Deferred   deferredReceive

	via        port.Which                // channel of the packet that is being received
	queuedMost time.Duration             // longest wait of the present packets for the poll
	seen       [fabric.MaxNameBytes]byte // source of the packet that is being processed
	sack       frag.Sack                 // of onSack
	sackWords  [frag.WindowMax / 64]uint64
	shaking    struct { // the packet of a handshake that is being processed
		head  frag.Header
		hello frag.Hello
	}
}

// DirectChunks lets the provider write the payloads of expected chunks of large fragments directly
// to their destination memory (package landing). DirectChunks also accepts the packets whose
// payloads the provider has written directly to their destination memory. Chunks arrive on the data
// channel or, over a reliable fabric, on the command channel.
//
// The provider never writes to a closed region. The application can close a region only in a
// handler or between two calls of Progress, when all payloads that the provider has written
// directly are already processed.
type DirectChunks struct {
	*Receiver
	Plan landing.Plan[*peer.Endpoint]
}

// Init prepares a Receiver for the endpoints of the Services "all", whose port must be open. The
// argument keptBytesMax of Init is the maximum total size, in bytes, of the fragments of several
// packets that the application keeps after their handlers have returned.
func (rx *Receiver) Init(all *peer.Services, keptBytesMax int64) {
	rx.Services, rx.Count = all, all.Counters()
	rx.Direct.Receiver, rx.records.Receiver, rx.asides.Receiver = rx, rx, rx
	rx.asides.pool, rx.asides.expireAt = frag.NewPartPool(partsBytesMax), mono.Never
	rx.Arrivals.Init(&rx.Keeping, keep.BoundsMax())
	rx.Keeping.Init(&all.Port, keptBytesMax)
	bulk := &all.Port.Data
	if all.Port.Reliable { // a reliable fabric has chunks on the command channel
		bulk = &all.Port.Command
	}
	if lander, ok := bulk.Endpoint.(fabric.Lander); ok && bulk.Caps.Landing {
		rx.Direct.Plan.Init(bulk, lander, &all.Port.Arena, landing.GuessBytesMin)
	}
}

// SetHandler sets the handler of a tag, for fragments of any length.
func (rx *Receiver) SetHandler(tag uint8, h Handler) { rx.handlers[tag], rx.mostBytes[tag] = h, 0 }

// SetPulled sets a handler that puts the messages of the tag into the queue Arrivals.
func (rx *Receiver) SetPulled(tag uint8, h Handler) {
	rx.SetHandler(tag, h)
	rx.Arrivals.Expect(rx.Port.Arena.Size() / frag.RecordHeaderBytes)
}

// Limit sets the maximum size, in bytes, of the chunked fragments that the handler of a tag
// accepts.
func (rx *Receiver) Limit(tag uint8, mostBytes uint32) { rx.mostBytes[tag] = mostBytes }

// Handles reports whether a tag has a handler.
func (rx *Receiver) Handles(tag uint8) bool { return rx.handlers[tag] != nil }

// BookFirst sets whether the Receiver updates the receive state before each call of a handler, so
// that ReceiveFast delivers no packet.
func (rx *Receiver) BookFirst(on bool) { rx.booksFirst = on }

// Waited sets an upper bound for the waiting time, in the fabric's receive queue, of the packets
// that are processed next.
func (rx *Receiver) Waited(queuedMost time.Duration) { rx.queuedMost = queuedMost }

// DeferredCounted reports whether FinishDeferred only has to count the packet that ReceiveFast has
// delivered, because the packet has arrived on the command channel of a reliable fabric, from a
// peer whose handshake is complete.
func (rx *Receiver) DeferredCounted() bool {
	d := &rx.Deferred
	if !d.Pending || d.on != &rx.Port.Command {
		return false
	}
	ep := rx.Peers.Lookup(d.tag)
	return ep != nil && ep.ID.Counted && ep.ID.Handshake == nil
}

// PartsDeadline returns the time at which ExpireParts must be called, or Never if no packet is
// incomplete.
func (rx *Receiver) PartsDeadline() mono.Time { return rx.asides.expireAt }

// ExpireParts discards the Parts (slices) of packets that have been incomplete for longer than
// PeerTimeout.
func (rx *Receiver) ExpireParts() { rx.asides.expire() }

// PartsBytes returns the memory, in bytes, of incomplete packets that arrive in Parts (slices).
func (rx *Receiver) PartsBytes() int { return rx.asides.pool.Bytes() }

// Check verifies the state of the Receiver. The argument "closed" of Check says whether the fabric
// is closed.
func (rx *Receiver) Check(closed bool) error {
	if err := rx.checkPort(closed); err != nil {
		return err
	}
	if err := rx.checkDirect(); err != nil {
		return err
	}
	return rx.asides.check()
}

func (rx *Receiver) checkPort(closed bool) error {
	if err := rx.Port.CheckAddresses(rx.Peers.Len()); err != nil || closed {
		return err // a closed module has no fabric any more
	}
	var lent [2]int
	if rx.Deferred.Pending {
		lent[rx.Deferred.on.Which]++
	}
	return errors.Join(rx.Keeping.Check(), rx.Port.Check(lent), rx.Arrivals.Check())
}

// CheckIdle returns an error if the receive state still has to be updated for a packet, or if a
// packet that arrives in slices (Parts) is incomplete, and nil otherwise.
func (rx *Receiver) CheckIdle() error {
	if rx.Deferred.Pending {
		return errors.New("a packet is not booked")
	}
	if n := rx.PartsBytes(); n != 0 {
		return fmt.Errorf("%d bytes of packets in Parts", n)
	}
	return nil
}
