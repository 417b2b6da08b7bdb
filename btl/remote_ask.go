package btl

import (
	"fmt"
	"time"

	"gobtl/frag"
	"gobtl/internal/slots"
)

// askTable is the operations of an endpoint that are answered, under their numbers: of 32 bits, the
// lower eight of which are a place.
type askTable = slots.Table[*operation]

const (
	askSlotBits   = 8
	askRandomBits = 32 - askSlotBits
)

// takeOp makes a fragment an operation.
func (m *Module) takeOp(f *Fragment, code frag.OpCode) *operation {
	var o *operation
	if n := len(m.answers.freeOps); n > 0 {
		o = m.answers.freeOps[n-1]
		m.answers.freeOps = m.answers.freeOps[:n-1]
	} else {
		o = new(operation)
	}
	o.frag, o.code = f, code
	f.op = o
	return o
}

// giveOp takes the operation of a fragment back, which is over.
func (m *Module) giveOp(f *Fragment) {
	m.settleOp(f)
	*f.op = operation{}
	m.answers.freeOps = append(m.answers.freeOps, f.op)
	f.op = nil
}

// prepareAsk lends a fragment that asks for something by one packet. If an answer will come the
// operation has a number, with the low askRandomBits of random, and that of a get a region, too.
func (ep *Endpoint) prepareAsk(code frag.OpCode, sizeBytes int, target Handle, offset,
	random uint64, answered bool,
) (*Fragment, *operation, error) {
	if err := ep.mayAsk(); err != nil {
		return nil, nil, err
	}
	m := ep.m
	t := &ep.asks.table
	if !ep.asks.made {
		ep.asks.made = true
		t.Init(askSlotBits, asksMax)
	}
	if answered && t.Full() || code == frag.OpGet && m.regions.exposed.Full() {
		return nil, nil, ep.again(wantsFragment)
	}
	f, err := m.takeFrag(ep, sizeBytes)
	if err != nil {
		return nil, nil, err
	}
	o := m.takeOp(f, code)
	f.mem, f.handle, f.offset = o.body[:sizeBytes], target, offset
	if answered {
		number, _ := t.Add(random&(1<<askRandomBits-1), o)
		o.number, o.numbered = uint32(number), true
	}
	return f, o, nil
}

// settleOp takes from a fragment that has ended, or is not sent after all, what others know of it:
// from here on nothing is written to its memory, and no answer finds it.
func (m *Module) settleOp(f *Fragment) {
	o, ep := f.op, f.ep
	if o.into.m != nil {
		m.regions.exposed.Remove(uint64(o.into.handle))
		o.into = Region{}
	}
	if !o.numbered {
		return
	}
	o.numbered = false
	if o.code == frag.OpPart {
		ep.asks.places[o.number%noticePlaces] = false
	} else {
		ep.asks.table.Remove(uint64(o.number))
	}
	if ep.err == nil {
		ep.m.sched.rearm(ep)
	}
}

// asked notes that the only packet of an operation is on its way.
func (m *Module) asked(f *Fragment) {
	o := f.op
	if o == nil || !o.numbered || f.answer || o.code == frag.OpPart {
		return
	}
	o.waits = true
	f.out++
	f.ep.asks.waiting++
	m.watchAsks(f.ep)
}

// unanswered takes back that an operation waits for an answer: it came, or never will.
func (m *Module) unanswered(f *Fragment) {
	if f.op == nil || !f.op.waits {
		return
	}
	f.op.waits = false
	m.askEnded = true
	ep := f.ep
	ep.asks.waiting--
	m.segEnded(f)
	if ep.err == nil {
		ep.checkFlushed()
		m.sched.rearm(ep) // a goodbye may have waited
	}
}

// failAsks ends the operations of an endpoint that has ended, which wait for an answer.
func (m *Module) failAsks(ep *Endpoint, err error) {
	for _, o := range ep.asks.table.Values() {
		if o != nil && o.waits {
			if o.frag.err == nil {
				o.frag.err = err
			}
			m.unanswered(o.frag)
		}
	}
}

// watchAsks has a silent peer asked whether it is there, as long as it owes an answer: there may be
// no packet in flight by which that would show.
func (m *Module) watchAsks(ep *Endpoint) {
	if ep.closing || ep.hs != nil || ep.asks.watched && ep.room != 0 {
		return
	}
	if ep.superseded {
		ep.asks.watched = true
		m.setTimer(ep, m.supersededTimeout(ep))
		return
	}
	if ep.owed() {
		return
	}
	ep.asks.watched = true
	m.setTimer(ep, m.lifeRules.PressAfter())
}

// pressForAnswer says whether a peer that owes an answer was heard of lately, so that it is not to
// be asked now; else it is, whatever KeepAlive says.
func (m *Module) pressForAnswer(ep *Endpoint, quiet time.Duration) bool {
	if ep.asks.watched = ep.asks.waiting > 0; !ep.asks.watched {
		return false
	}
	if quiet < m.lifeRules.PressAfter() {
		m.setTimer(ep, m.lifeRules.PressAfter()-quiet)
		return true
	}
	ep.life.Press()
	return false
}

// gotBytes counts what has come of a get.
func (m *Module) gotBytes(o *operation, sizeBytes int) {
	if !o.waits { // it is over, or not sent yet: then nobody can know its handle
		return
	}
	o.arrived += uint32(sizeBytes)
	if f := o.frag; o.arrived >= uint32(len(o.into.mem)) {
		m.needsNoAck(f)
		m.unanswered(f)
	}
}

// acceptAnswer takes the answer to an operation over.
func (m *Module) acceptAnswer(in *arrival) {
	ep, h := in.ep, &in.Header
	m.accepted(ep, h)
	m.takeAnswer(ep, h.Op, h.OpCode, in.payload)
	m.checkBye(ep)
}

// takeAnswer ends what an operation waits for. An answer that nobody waits for says nothing.
func (m *Module) takeAnswer(ep *Endpoint, number uint32, code frag.OpCode, says []byte) {
	o, ok := ep.asks.table.Get(uint64(number))
	switch {
	case !ok || !o.waits:
	case code == frag.OpResult && o.code == frag.OpAtomic:
		o.value = frag.DecodeResult(says)
		m.unanswered(o.frag)
	case code == frag.OpFailed && o.code == frag.OpGet:
		if o.frag.err == nil {
			o.frag.err = o.frag.accessError(says[0])
		}
		m.unanswered(o.frag)
	}
}

// checkAsks looks at the operations of an endpoint.
func (m *Module) checkAsks(c *checker, ep *Endpoint) error {
	a := &ep.asks
	waiting := 0
	for _, o := range a.table.Values() {
		if o == nil {
			continue
		}
		f := o.frag
		if f.op != o || f.ep != ep || !o.numbered || o.code == frag.OpPart {
			return fmt.Errorf("operation %#x is of a fragment in state %d, which has another", o.number,
				f.state)
		}
		if !o.waits {
			continue
		}
		waiting++
		c.meet(f)
		if f.unmet == 0 || f.state != fragSent {
			return fmt.Errorf("operation %#x waits for an answer, its fragment, in state %d, for %d",
				o.number, f.state, f.out)
		}
		f.unmet--
		c.refs++
	}
	if waiting != a.waiting {
		return fmt.Errorf("%d operations wait for an answer, %d counted", waiting, a.waiting)
	}
	return a.table.Check()
}
