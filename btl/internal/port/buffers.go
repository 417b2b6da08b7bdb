package port

import (
	"fmt"

	"gobtl/fabric"
)

// State is the state of a send or control buffer: a set of bits, none if the buffer is not posted.
type State uint8

// The bits of a State.
const (
	Busy    State = 1 << 0 // in a channel's batch, or posted and not completed
	Release State = 1 << 1 // the owner waits until it is no longer busy: see Done
	apart   State = 1 << 2 // its packet is to leave in a Post of its own
)

const (
	// ControlBuffers is the number of buffers for ACKs, Nacks, handshakes and Parts. These packets
	// never wait for a send buffer.
	ControlBuffers = 64 + PartBuffers
	// PartBuffers is how many of the control buffers Parts may take: enough for the largest packet
	// at the smallest size.
	PartBuffers = 64
)

// buffers is the state of all buffers to send from, and the list of free control buffers, which
// stand behind the owner's send buffers in the arena.
type buffers struct {
	sends   int // the owner's
	state   []State
	alone   []bool // its latest packet left with no other to the same address beside it
	freeCtl []fabric.Buf
	ctlTo   [ControlBuffers]fabric.Addr // where the busy ones go
	done    []fabric.Buf                // that the fabric has let go of, for Done
	refused []Refusal                   // for Refused
}

// Refusal is a send that the fabric will never take.
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

// State is the state of a buffer to send from.
func (b *buffers) State(buf fabric.Buf) State { return b.state[buf] }

// Busy says whether the fabric has a buffer, or is about to get it.
func (b *buffers) Busy(buf fabric.Buf) bool { return b.state[buf]&Busy != 0 }

// ReleaseWhenDone asks for a send buffer to appear in Done when the fabric lets go of it. It is
// posted already, or is about to be.
func (b *buffers) ReleaseWhenDone(buf fabric.Buf) { b.state[buf] |= Release }

// Alone says whether the latest packet in a buffer has left with no other packet to the same
// address beside it. What lies beside it may travel as one message with it.
func (b *buffers) Alone(buf fabric.Buf) bool { return b.alone[buf] }

// letGo notes that the fabric is done with a buffer.
func (b *buffers) letGo(buf fabric.Buf) {
	s := &b.state[buf]
	if *s == Busy && int(buf) < b.sends { // as it mostly is
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

// Done returns the buffers that the fabric has let go of since the latest call: control buffers,
// which are free already, and the send buffers of ReleaseWhenDone. The slice is valid until the
// next post.
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

// Refused returns the sends that the fabric has refused since the latest call. Their buffers are
// free, or in Done. The slice is valid until the next post.
func (b *buffers) Refused() []Refusal {
	refused := b.refused
	b.refused = b.refused[:0]
	return refused
}

// Settled says whether Refused and Done have nothing to tell.
func (b *buffers) Settled() bool { return len(b.done) == 0 && len(b.refused) == 0 }

// Control says whether a buffer is a control buffer, and which.
func (b *buffers) Control(buf fabric.Buf) (n int, ok bool) {
	n = int(buf) - b.sends
	return n, n >= 0
}

// FreeControl is the number of free control buffers.
func (b *buffers) FreeControl() int { return len(b.freeCtl) }

// FreeParts is the number of control buffers that Parts may take now. It may be negative.
func (b *buffers) FreeParts() int { return len(b.freeCtl) - (ControlBuffers - PartBuffers) }

// TakeControl takes a control buffer for a packet to an address, if the channel has room for it,
// and if the packets on their way to that address are not too many.
func (b *buffers) TakeControl(c *Channel, to fabric.Addr) (buf fabric.Buf, ok bool) {
	if c.Room() <= 0 || len(b.freeCtl) == 0 || !b.MayTakeControl(to) {
		return 0, false
	}
	return b.TakePart(to), true
}

// TakePart takes a control buffer for a packet to an address. There must be one: see FreeParts.
func (b *buffers) TakePart(to fabric.Addr) fabric.Buf {
	n := len(b.freeCtl) - 1
	buf := b.freeCtl[n]
	b.freeCtl = b.freeCtl[:n]
	b.ctlTo[int(buf)-b.sends] = to
	return buf
}

// PeekControl is the control buffer that would be taken next. Its bytes may be written, and
// injected (Channel.Inject), before the next call of the Port.
func (b *buffers) PeekControl() (buf fabric.Buf, ok bool) {
	n := len(b.freeCtl)
	if n == 0 {
		return 0, false
	}
	return b.freeCtl[n-1], true
}

// MayTakeControl says whether another control packet may go to an address: as many packets may be
// on their way there as control buffers are free. A fabric may keep the packets of a peer that
// stands still, and the other peers need control buffers to live.
func (b *buffers) MayTakeControl(to fabric.Addr) bool {
	free := len(b.freeCtl)
	if free > ControlBuffers/2 { // more than all that are not, as it mostly is
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

// checkControl proves that every control buffer is free or with the fabric.
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
