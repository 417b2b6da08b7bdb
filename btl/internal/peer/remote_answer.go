package peer

import (
	"gobtl/btl/internal/remote"
	"gobtl/frag"
)

// SendGetReply sends or queues the bytes that a get of the peer requests.
func (tx Sender) SendGetReply(
	ep *Endpoint, from *remote.Region[*Fragment], number uint32, g *frag.Get,
) {
	f := tx.Frags.LendAnswer(ep)
	f.Op = tx.Remote.AnswerGet(ep.Remote, f, number, from)
	f.put, f.handle, f.offset = true, remote.Handle(g.Answer), 0
	f.size = g.SizeBytes
	f.Data.Hold(from.Bytes()[g.Offset:][:g.SizeBytes])
	tx.answerNow(ep, f)
}

// AnswerWith makes fragment f the reply to a memory operation of the peer, and queues f. The
// argument o of AnswerWith is the state of the reply.
func (f *Fragment) AnswerWith(o *Operation) {
	f.Op = o
	f.Data.Hold(o.Body())
	f.size = uint32(len(f.Data.Bytes))
	f.Ep.All.Sender.enqueue(f.Ep, f)
}

// If fastSend allows it, answerNow sends the reply to a memory request immediately, and otherwise
// queues the reply.
func (tx Sender) answerNow(ep *Endpoint, f *Fragment) {
	ep.Snd.Rest(tx.Clock.Now)
	switch {
	case !tx.fastSend(ep, f, ep.unbatched()):
		tx.enqueue(ep, f)
	case f.out != 0: // the fabric may still read the region
		ep.Remote.Left(f.Op, f.Data.Registered())
		f.state = fragSent
		tx.Dirty = true
	default:
		tx.Frags.giveAnswer(f)
		tx.Dirty = true
	}
}

// giveAnswer frees the fragment of a reply.
func (ds *Descriptors) giveAnswer(f *Fragment) {
	ds.Remote.EndAnswer(f.Ep.Remote, f.Op)
	ds.giveBackAnswer(f)
}
