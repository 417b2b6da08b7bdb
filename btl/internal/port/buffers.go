package port

import (
	"fmt"

	"gobtl/fabric"
)

// State contains the state bits of a send or control buffer. The State of a buffer that is not
// posted is 0.
type State uint8

// The bits of a State.
const (
	Busy    State = 1 << 0 // in a channel's batch, or posted and not completed
	Release State = 1 << 1 // the buffer is returned by Done when it is no longer busy
	apart   State = 1 << 2 // its packet must be posted in a separate call
)

const (
	// ControlBuffers is the number of buffers for ACKs, Nacks, handshakes and Parts (slices of a
	// packet that the path cannot carry whole). Control packets never wait for a send buffer.
	ControlBuffers = 64 + PartBuffers
	// PartBuffers is the maximum number of control buffers for Parts (slices of packets). A packet of
	// the largest size needs PartBuffers buffers if each of its Parts has the smallest size.
	PartBuffers = 64
)

// The type "buffers" contains the state of all send and control buffers, and the list of free
// control buffers.
type buffers struct {
	sends       int // number of send buffers
	State       []State
	Uncoalesced []bool // the latest packet was posted without coalescing
	FreeCtl     []fabric.Buf
	ctlTo       [ControlBuffers]fabric.Addr // destinations of the busy control buffers
	done        []fabric.Buf                // buffers that the fabric has released, for Done
	refused     []Refusal                   // sends for the result of Refused
	unstuck     bool                        // for the result of Unstuck
}

// Refusal contains a send that the fabric has permanently rejected, and the reason for the
// rejection.
type Refusal struct {
	Send fabric.Send
	Err  error
}

func (b *buffers) init(sendBuffers, arenaLen int) {
	n := min(sendBuffers+ControlBuffers, arenaLen)
	b.sends, b.State, b.Uncoalesced = sendBuffers, make([]State, n), make([]bool, n)
	b.done = make([]fabric.Buf, 0, n)
	b.FreeCtl = make([]fabric.Buf, 0, ControlBuffers)
	for i := sendBuffers; i < n; i++ {
		b.FreeCtl = append(b.FreeCtl, fabric.Buf(i))
	}
}

// ReleaseWhenDone makes Done return a send buffer as soon as the fabric has released the buffer.
// The caller may call ReleaseWhenDone only for a buffer that is posted or in a batch.
func (b *buffers) ReleaseWhenDone(buf fabric.Buf) { b.State[buf] |= Release }

// letGo records that the fabric has released a buffer.
func (b *buffers) letGo(buf fabric.Buf) {
	s := &b.State[buf]
	if *s == Busy && int(buf) < b.sends { // the common case
		*s = 0
		return
	}
	release := *s&Release != 0
	if *s = 0; int(buf) >= b.sends {
		b.FreeCtl = append(b.FreeCtl, buf)
		release = true
	}
	if release {
		b.done = append(b.done, buf)
	}
}

// Done returns buffers that the fabric has released since the previous call of Done. The result of
// Done contains all released control buffers, which are already free, and those released send
// buffers for which ReleaseWhenDone was called. The slice of buffers that Done returns is valid
// until the next send is posted.
func (b *buffers) Done() []fabric.Buf {
	done := b.done
	b.done = b.done[:0]
	return done
}

// Refused returns the sends that the fabric has rejected since the previous call of Refused. The
// buffer of a rejected send is free, or is returned by Done. The slice of sends that Refused
// returns is valid until the next send is posted.
func (b *buffers) Refused() []Refusal {
	refused := b.refused
	b.refused = b.refused[:0]
	return refused
}

// Unstuck reports whether, since the previous call of Unstuck, the fabric has accepted at least one
// more packet of a batch that Post could not post completely.
func (b *buffers) Unstuck() bool {
	was := b.unstuck
	b.unstuck = false
	return was
}

// Settled reports whether Refused and Done would return nothing, and Unstuck would return false.
func (b *buffers) Settled() bool {
	return len(b.done) == 0 && len(b.refused) == 0 && !b.unstuck
}

// Control returns the index of a buffer among the control buffers. The result "ok" of Control says
// whether the buffer is a control buffer, and not a send buffer.
func (b *buffers) Control(buf fabric.Buf) (n int, ok bool) {
	n = int(buf) - b.sends
	return n, n >= 0
}

// FreeParts returns the number of control buffers that are available for Parts (slices of packets)
// at present. The result of FreeParts can be negative.
func (b *buffers) FreeParts() int { return len(b.FreeCtl) - (ControlBuffers - PartBuffers) }

// TakeControl takes a control buffer for a packet to an address. The result "ok" of TakeControl is
// true if the channel has room, a control buffer is free, and MayTakeControl returns true for the
// address.
func (b *buffers) TakeControl(c *Channel, to fabric.Addr) (buf fabric.Buf, ok bool) {
	if c.Room() <= 0 || len(b.FreeCtl) == 0 || !b.MayTakeControl(to) {
		return 0, false
	}
	return b.TakePart(to), true
}

// TakePart takes a control buffer for a Part (slice of a packet) to an address. The caller may call
// TakePart only if a control buffer is free (see FreeParts).
func (b *buffers) TakePart(to fabric.Addr) fabric.Buf {
	n := len(b.FreeCtl) - 1
	buf := b.FreeCtl[n]
	b.FreeCtl = b.FreeCtl[:n]
	b.ctlTo[int(buf)-b.sends] = to
	return buf
}

// PeekControl returns the control buffer that TakeControl would return next. The caller of
// PeekControl may write to the returned buffer and inject its bytes (Channel.Inject) before the
// next call of a method of the Port. The result "ok" of PeekControl says whether a control buffer
// is free.
func (b *buffers) PeekControl() (buf fabric.Buf, ok bool) {
	n := len(b.FreeCtl)
	if n == 0 {
		return 0, false
	}
	return b.FreeCtl[n-1], true
}

// MayTakeControl reports whether the limits allow one more control packet to an address. The
// packets to one address may use at most as many control buffers as are free at present. Because of
// the limit for each address, buffers for packets to live peers remain free while the fabric does
// not complete the sends to a stopped peer.
func (b *buffers) MayTakeControl(to fabric.Addr) bool {
	free := len(b.FreeCtl)
	if free > ControlBuffers/2 { // the common case is that more buffers are free than busy
		return true
	}
	held := 0
	for i, a := range &b.ctlTo {
		if a == to && b.State[b.sends+i] != 0 {
			held++
		}
	}
	return held < free
}

func (p *Port) checkControl() error {
	if len(p.done) > 0 || len(p.refused) > 0 {
		return fmt.Errorf("%d sends done, %d refused, that nobody has looked at", len(p.done),
			len(p.refused))
	}
	free := 0
	for _, s := range p.State[p.sends:] {
		if s&Busy == 0 {
			free++
		}
	}
	for _, b := range p.FreeCtl {
		if int(b) < p.sends || int(b) >= len(p.State) || p.State[b] != 0 || p.seen[b] {
			return fmt.Errorf("control buffer %d is free, and is not", b)
		}
		p.seen[b] = true
	}
	for _, b := range p.FreeCtl {
		p.seen[b] = false
	}
	if free != len(p.FreeCtl) {
		return fmt.Errorf("%d control buffers on no wire, %d free", free, len(p.FreeCtl))
	}
	return nil
}
