package btl

import (
	"encoding/binary"

	"gobtl/frag"
)

// acceptOp takes a packet of an operation over, if its peer may do what it asks for. Everything is
// done here and now, by who calls Progress, but for the bytes of a get, which leave when there is
// room for them.
func (m *Module) acceptOp(in *arrival) {
	switch in.OpCode {
	case frag.OpPart:
		m.acceptPart(in)
	case frag.OpPlaced:
		m.acceptPlaced(in)
	case frag.OpNotice:
		m.acceptNotice(in)
	case frag.OpGet:
		m.acceptGet(in)
	case frag.OpAtomic:
		m.acceptAtomic(in)
	case frag.OpResult, frag.OpFailed:
		m.acceptAnswer(in)
	}
}

// refuseAccess refuses a packet for good, as one that asks for what it may not.
func (m *Module) refuseAccess(in *arrival, reason uint8) {
	if !in.ep.operates {
		reason = frag.NackAccess
	}
	m.drop(CntDropAccess)
	m.refuse(in, reason)
}

// writeInto writes data where a put says, or refuses the packet.
func (m *Module) writeInto(in *arrival, data []byte, need Rights) bool {
	to, reason := m.regions.reach(in.ep, Handle(in.Handle), in.PutOffset, len(data), need)
	if reason != 0 {
		m.refuseAccess(in, reason)
		return false
	}
	copy(to.mem[in.PutOffset:], data)
	m.stats.counters[CntRecvPayloadBytes] += uint64(len(data))
	if to.get != nil {
		m.gotBytes(to.get, len(data))
	}
	return true
}

// answers are what a module owes its peers: fragments of its own, which are nobody's sends.
type answers struct {
	free  []*Fragment
	count int // that were made and are not free
	// freeOps are operations for whoever needs one.
	freeOps []*operation
}

// crowded says whether so many answers to an endpoint have not left, and so many more are owed
// soon, that no well-behaved peer asks for another one.
func (ep *Endpoint) crowded(more int) bool { return ep.answering+more >= asksMax }

// answer lends a fragment for an answer.
func (m *Module) answer(ep *Endpoint, code frag.OpCode) *Fragment {
	a := &m.answers
	a.count++
	var f *Fragment
	if n := len(a.free); n > 0 {
		f = a.free[n-1]
		a.free = a.free[:n-1]
	} else {
		f = new(Fragment)
	}
	f.ep, f.answer = ep, true
	m.takeOp(f, code)
	ep.answering++
	return f
}

// left notes that the last packet of an answer was sent, or that it never will be.
func (m *Module) left(f *Fragment) {
	o := f.op
	if !o.numbered {
		return
	}
	o.numbered = false
	f.ep.answering--
	if !f.ownRegion {
		f.readsNoMore()
	}
}

// readsNoMore notes that nothing of the answer to a get is read from its region any more.
func (f *Fragment) readsNoMore() {
	if r := f.op.from; r != nil {
		f.op.from = nil
		r.forget(f)
	}
}

// giveAnswer takes the fragment of an answer back.
func (m *Module) giveAnswer(f *Fragment) {
	m.left(f)
	f.readsNoMore()
	a := &m.answers
	a.count--
	own := f.own
	if cap(own) > ownBytesMax {
		own = nil
	}
	*f.op = operation{}
	m.answers.freeOps = append(m.answers.freeOps, f.op)
	*f = Fragment{own: own}
	a.free = append(a.free, f)
}

// acceptGet begins to answer a get.
func (m *Module) acceptGet(in *arrival) {
	ep := in.ep
	var g frag.Get
	from, reason := m.reachGet(ep, in.payload, &g)
	if reason != 0 {
		m.refuseAccess(in, reason)
		return
	}
	m.accepted(ep, &in.Header)
	if !ep.closing { // else nothing may be sent any more, and the peer learns that soon
		m.answerGet(ep, from, in.Op, &g)
	}
	m.checkBye(ep)
}

// reachGet reads what a get asks for and returns its region, or why it is refused.
func (m *Module) reachGet(ep *Endpoint, payload []byte, g *frag.Get) (from *Region, reason uint8) {
	if !frag.DecodeGet(payload, g) || ep.crowded(0) || g.SizeBytes > ep.fragBytesMax {
		return nil, frag.NackAccess
	}
	return m.regions.reach(ep, Handle(g.Handle), g.Offset, int(g.SizeBytes), RemoteRead)
}

// answerGet sends, or queues, what a get asks for.
func (m *Module) answerGet(ep *Endpoint, from *Region, number uint32, g *frag.Get) {
	f := m.answer(ep, 0)
	f.put, f.handle, f.offset = true, Handle(g.Answer), 0
	f.mem, f.size = from.mem[g.Offset:][:g.SizeBytes], g.SizeBytes
	f.op.from, f.op.ask, f.op.numbered = from, number, true
	from.reads = append(from.reads, f)
	ep.answerNow(f)
}

// acceptAtomic changes a number, and answers with the old one.
func (m *Module) acceptAtomic(in *arrival) {
	ep := in.ep
	var a frag.Atomic
	on, reason := m.reachAtomic(ep, in.payload, &a, 0)
	if reason != 0 {
		m.refuseAccess(in, reason)
		return
	}
	m.accepted(ep, &in.Header)
	m.doAtomic(ep, in.Op, on, &a)
	m.checkBye(ep)
}

// reachAtomic reads what an atomic operation asks for and returns its region, or why it is refused.
// So many answers will be owed beside those that are.
func (m *Module) reachAtomic(ep *Endpoint, payload []byte, a *frag.Atomic, answers int) (
	on *Region, reason uint8,
) {
	if !frag.DecodeAtomic(payload, a) || a.Fetch && ep.crowded(answers) {
		return nil, frag.NackAccess
	}
	width := int(a.WidthBytes)
	on, reason = m.regions.reach(ep, Handle(a.Handle), a.Offset, width, RemoteAtomic)
	if reason == 0 && a.Offset%uint64(width) != 0 {
		reason = frag.NackBounds
	}
	return on, reason
}

// doAtomic changes a number, and has its old value said if that is wanted.
func (m *Module) doAtomic(ep *Endpoint, number uint32, on *Region, a *frag.Atomic) {
	old := change(on.mem[a.Offset:][:a.WidthBytes], a)
	if a.Fetch && !ep.closing {
		f := m.answer(ep, frag.OpResult)
		m.sayAnswer(f, number, frag.ResultBytes)
		frag.PutResult(f.mem, old)
	}
}

// change does what an atomic operation asks for to the number in mem, and returns the old one.
func change(mem []byte, a *frag.Atomic) (old uint64) {
	if len(mem) == 4 {
		old = uint64(binary.NativeEndian.Uint32(mem))
		binary.NativeEndian.PutUint32(mem, uint32(a.Apply(old)))
		return old
	}
	old = binary.NativeEndian.Uint64(mem)
	binary.NativeEndian.PutUint64(mem, a.Apply(old))
	return old
}

// sayAnswer queues an answer of one packet to the operation of that number.
func (m *Module) sayAnswer(f *Fragment, number uint32, sizeBytes int) {
	o := f.op
	o.number, o.numbered = number, true
	f.mem, f.size = o.body[:sizeBytes], uint32(sizeBytes)
	f.ep.enqueue(f)
}

// endReads ends the answers that read a region which is withdrawn: what has not been sent of them
// never is, and who asked is told.
func (r *Region) endReads() {
	m := r.m
	if len(r.reads) > 0 {
		r.takeAlong()
	}
	for len(r.reads) > 0 {
		f := r.reads[len(r.reads)-1]
		ep, ask := f.ep, f.op.ask
		m.left(f)
		f.readsNoMore() // which takes it off the list
		m.dropOwn(f)
		if f.state != fragQueued {
			continue
		}
		m.unqueue(ep, f)
		f.err = ErrClosed
		if f.out == 0 {
			m.complete(f, f.err)
		}
		if ep.err == nil && !ep.closing {
			failed := m.answer(ep, frag.OpFailed)
			failed.op.body[0] = frag.NackAccess
			m.sayAnswer(failed, ask, frag.FailedBytes)
		}
		m.sched.rearm(ep)
	}
}

// forget takes the answer to a get, which reads the region no more, off its list.
func (r *Region) forget(f *Fragment) {
	for i, g := range r.reads {
		if g == f {
			last := len(r.reads) - 1
			r.reads[i] = r.reads[last]
			r.reads[last] = nil
			r.reads = r.reads[:last]
			return
		}
	}
}

// answerNow sends an answer at once if the fast path is open for it, else queues it.
func (ep *Endpoint) answerNow(f *Fragment) {
	m := ep.m
	ep.snd.Rest(m.now)
	switch {
	case !ep.fastSend(f):
		ep.enqueue(f)
	case f.out != 0: // the fabric reads the region still
		m.left(f)
		f.state = fragSent
		m.dirty = true
	default:
		m.giveAnswer(f)
		m.dirty = true
	}
}
