package port

import (
	"fmt"

	"gobtl/fabric"
)

// State is the set of state bits of a send or control buffer, and is 0 for a buffer that is not
// posted.
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
	// PartBuffers is the maximum number of control buffers for Parts, which suffices for the
	// largest packet in Parts of the smallest size.
	PartBuffers = 64
)

// buffers holds the state of all send and control buffers, and the list of free control buffers.
type buffers struct {
	sends   int // number of send buffers
	state   []State
	alone   []bool // the latest packet was posted without a neighbour to the same address
	freeCtl []fabric.Buf
	ctlTo   [ControlBuffers]fabric.Addr // destinations of the busy control buffers
	done    []fabric.Buf                // buffers that the fabric has released, for Done
	refused []Refusal                   // sends for the result of Refused
}

// Refusal is a send that the fabric has rejected for good, with the reason.
type Refusal struct {
	Send fabric.Send
	Err  error
}

func (b *buffers) init(sendBuffers, arenaLen int) {
	n := min(sendBuffers+ControlBuffers, arenaLen)
	b.sends, b.state, b.alone = sendBuffers, make([]State, n), make([]bool, n)
	b.done = make([]fabric.Buf, 0, n)
	b.freeCtl = make([]fabric.Buf, 0, ControlBuffers)
	for i := sendBuffers; i < n; i++ {
		b.freeCtl = append(b.freeCtl, fabric.Buf(i))
	}
}

// State returns the state of a send or control buffer.
func (b *buffers) State(buf fabric.Buf) State { return b.state[buf] }

// Busy reports whether a buffer is posted to the fabric, or is in a channel's batch.
func (b *buffers) Busy(buf fabric.Buf) bool { return b.state[buf]&Busy != 0 }

// ReleaseWhenDone makes Done return a send buffer after the fabric has released it. The buffer must
// be posted, or be in a batch.
func (b *buffers) ReleaseWhenDone(buf fabric.Buf) { b.state[buf] |= Release }

// Alone reports whether the latest packet of a buffer was posted without an adjacent packet to
// the same address.
func (b *buffers) Alone(buf fabric.Buf) bool { return b.alone[buf] }

// letGo records that the fabric has released a buffer.
func (b *buffers) letGo(buf fabric.Buf) {
	s := &b.state[buf]
	if *s == Busy && int(buf) < b.sends { // the common case
		*s = 0
		return
	}
	release := *s&Release != 0
	if *s = 0; int(buf) >= b.sends {
		b.freeCtl = append(b.freeCtl, buf)
		release = true
	}
	if release {
		b.done = append(b.done, buf)
	}
}

// Done returns the control buffers (which are free) that the fabric has released after the
// previous call of Done, and the released send buffers of ReleaseWhenDone. The slice is valid
// until the next send is posted.
func (b *buffers) Done() []fabric.Buf {
	if len(b.done) == 0 { // inlined
		return nil
	}
	return b.takeDone()
}

func (b *buffers) takeDone() []fabric.Buf {
	done := b.done
	b.done = b.done[:0]
	return done
}

// Refused returns the sends that the fabric has rejected after the previous call of Refused. The
// buffers of rejected sends are free, or are returned by Done. The slice is valid until the next
// send is posted.
func (b *buffers) Refused() []Refusal {
	refused := b.refused
	b.refused = b.refused[:0]
	return refused
}

// Settled reports whether Refused and Done would both return nothing.
func (b *buffers) Settled() bool { return len(b.done) == 0 && len(b.refused) == 0 }

// Control returns the index of a control buffer, where ok is false for a send buffer.
func (b *buffers) Control(buf fabric.Buf) (n int, ok bool) {
	n = int(buf) - b.sends
	return n, n >= 0
}

// FreeControl is the number of free control buffers.
func (b *buffers) FreeControl() int { return len(b.freeCtl) }

// FreeParts is the number of control buffers that Parts may take now, which may be negative.
func (b *buffers) FreeParts() int { return len(b.freeCtl) - (ControlBuffers - PartBuffers) }

// TakeControl takes a control buffer for a packet to an address. TakeControl returns false if the
// channel is full, if no control buffer is free, or if MayTakeControl is false for the address.
func (b *buffers) TakeControl(c *Channel, to fabric.Addr) (buf fabric.Buf, ok bool) {
	if c.Room() <= 0 || len(b.freeCtl) == 0 || !b.MayTakeControl(to) {
		return 0, false
	}
	return b.TakePart(to), true
}

// TakePart takes a control buffer for a Part to an address. A control buffer must be free (see
// FreeParts).
func (b *buffers) TakePart(to fabric.Addr) fabric.Buf {
	n := len(b.freeCtl) - 1
	buf := b.freeCtl[n]
	b.freeCtl = b.freeCtl[:n]
	b.ctlTo[int(buf)-b.sends] = to
	return buf
}

// PeekControl returns the control buffer that TakeControl would return next. The caller may
// write to the control buffer that PeekControl returns, and inject its bytes
// (Channel.Inject), before the next call of the Port.
func (b *buffers) PeekControl() (buf fabric.Buf, ok bool) {
	n := len(b.freeCtl)
	if n == 0 {
		return 0, false
	}
	return b.freeCtl[n-1], true
}

// MayTakeControl reports whether another control packet may be sent to an address. The packets to
// one address may use at most as many control buffers as are free. A fabric may keep the packets
// for a stopped peer, so control buffers must be left for the other peers.
func (b *buffers) MayTakeControl(to fabric.Addr) bool {
	free := len(b.freeCtl)
	if free > ControlBuffers/2 { // the common case is that more buffers are free than busy
		return true
	}
	held := 0
	for i, a := range &b.ctlTo {
		if a == to && b.state[b.sends+i] != 0 {
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
	for _, s := range p.state[p.sends:] {
		if s&Busy == 0 {
			free++
		}
	}
	for _, b := range p.freeCtl {
		if int(b) < p.sends || int(b) >= len(p.state) || p.state[b] != 0 || p.seen[b] {
			return fmt.Errorf("control buffer %d is free, and is not", b)
		}
		p.seen[b] = true
	}
	for _, b := range p.freeCtl {
		p.seen[b] = false
	}
	if free != len(p.freeCtl) {
		return fmt.Errorf("%d control buffers on no wire, %d free", free, len(p.freeCtl))
	}
	return nil
}
