package btl

import (
	"gobtl/btl/internal/remote"
	"gobtl/frag"
)

// acceptRemote accepts a packet of a memory operation if the peer has the right to the operation,
// and performs the operation at once. Only the bytes that a get requests may be sent after
// acceptRemote has returned, when send buffers are free.
func (m *Module) acceptRemote(in *arrival) {
	ep, h := in.ep, &in.Header
	p := ep.remote
	if h.Flags&frag.FlagOp != 0 {
		if p = ep.memory(); notifies(h.OpCode) && m.handlers[h.Tag] == nil {
			m.drop(CntDropNoHandler)
			m.refuse(in, frag.NackNoHandler)
			return
		}
	}
	var did remote.Outcome[*Fragment]
	if reason := m.remote.Accept(p, h, in.payload, ep.grants(), &did); reason != 0 {
		if !ep.id.Operates {
			reason = frag.NackAccess
		}
		m.drop(CntDropAccess)
		m.refuse(in, reason)
		return
	}
	m.stats.counters[CntRecvPayloadBytes] += uint64(did.Written)
	if did.Ended != nil {
		if f := did.Ended.Fragment(); did.Failed && f.err == nil {
			f.err = f.accessError(did.Reason)
		}
		m.gotAnswer(did.Ended, h.Flags&frag.FlagPut != 0)
	}
	m.accepted(ep, h)
	if h.Flags&frag.FlagPut != 0 {
		m.putCame(ep, h)
	}
	switch {
	case did.Notice != nil:
		m.notify(ep, did.Notice)
	case h.OpCode == frag.OpPlaced:
		m.deliver(ep, h.Tag, did.Says)
	case ep.closing: // no reply may be sent any more, which the peer learns by the Bye
	case did.Read != nil:
		m.answerGet(ep, did.Read, h.Op, &did.Get)
	case did.Fetched:
		f := m.frags.lendAnswer(ep)
		f.answerWith(m.remote.AnswerResult(p, f, h.Op, did.Old))
	}
	m.checkBye(ep)
}

// notifies reports whether a packet of an operation contains the completion notification of a put.
func notifies(code frag.OpCode) bool { return code == frag.OpNotice || code == frag.OpPlaced }

func (ep *Endpoint) grants() remote.Link {
	return remote.Link{FragBytesMax: ep.fragBytesMax, InOrder: ep.id.Counted}
}

// notify delivers the completion notification of a put, when all bytes of the put are written.
func (m *Module) notify(ep *Endpoint, n *remote.Notice) {
	tag, says, ok := n.Take()
	if !ok {
		return
	}
	if m.handlers[tag] == nil { // the handler was removed after the notice had arrived
		m.stats.counters[CntRecordsDropped]++
		return
	}
	m.deliver(ep, tag, says)
}

// answerGet sends or queues the bytes that a get of the peer requests.
func (m *Module) answerGet(
	ep *Endpoint, from *remote.Region[*Fragment], number uint32, g *frag.Get,
) {
	f := m.frags.lendAnswer(ep)
	f.op = m.remote.AnswerGet(ep.remote, f, number, from)
	f.put, f.handle, f.offset = true, Handle(g.Answer), 0
	f.data.Bytes, f.size = from.Bytes()[g.Offset:][:g.SizeBytes], g.SizeBytes
	ep.answerNow(f)
}

func (f *Fragment) answerWith(o *operation) {
	f.op, f.data.Bytes = o, o.Body()
	f.size = uint32(len(f.data.Bytes))
	f.ep.enqueue(f)
}

// answerNow sends the reply to a memory request at once if the fast path is open, and otherwise
// queues the reply.
func (ep *Endpoint) answerNow(f *Fragment) {
	m := ep.m
	ep.snd.Rest(m.clock.Now)
	switch {
	case !ep.fastSend(f):
		ep.enqueue(f)
	case f.out != 0: // the fabric may still read the region
		ep.remote.Left(f.op, f.data.Registered())
		f.state = fragSent
		m.dirty = true
	default:
		m.giveAnswer(f)
		m.dirty = true
	}
}

// giveAnswer frees the fragment of a reply.
func (m *Module) giveAnswer(f *Fragment) {
	m.remote.EndAnswer(f.ep.remote, f.op)
	m.frags.giveBackAnswer(f)
}
