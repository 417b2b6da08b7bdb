package peer

import (
	"gobtl/btl/internal/remote"
	"gobtl/frag"
)

// AnswerGet sends or queues the bytes that a get of the peer requests.
func (tx *Sender) AnswerGet(
	ep *Endpoint, from *remote.Region[*Fragment], number uint32, g *frag.Get,
) {
	f := tx.Frags.LendAnswer(ep)
	f.Op = tx.Remote.AnswerGet(ep.Remote, f, number, from)
	f.put, f.handle, f.offset = true, remote.Handle(g.Answer), 0
	f.size = g.SizeBytes
	f.Data.Hold(from.Bytes()[g.Offset:][:g.SizeBytes])
	tx.answerNow(ep, f)
}

// AnswerWith queues the fragment as the answer o to an operation of the peer.
func (f *Fragment) AnswerWith(o *Operation) {
	f.Op = o
	f.Data.Hold(o.Body())
	f.size = uint32(len(f.Data.Bytes))
	f.Ep.all.Sender.Enqueue(f.Ep, f)
}

// answerNow sends the reply to a memory request at once if the fast path is open, and otherwise
// queues the reply.
func (tx *Sender) answerNow(ep *Endpoint, f *Fragment) {
	ep.Snd.Rest(tx.Clock.Now)
	switch {
	case !tx.fastSend(ep, f):
		tx.Enqueue(ep, f)
	case f.Out != 0: // the fabric may still read the region
		ep.Remote.Left(f.Op, f.Data.Registered())
		f.State = FragSent
		tx.dirty = true
	default:
		tx.Frags.giveAnswer(f)
		tx.dirty = true
	}
}

// giveAnswer frees the fragment of a reply.
func (ds *Descriptors) giveAnswer(f *Fragment) {
	ds.Remote.EndAnswer(f.Ep.Remote, f.Op)
	ds.giveBackAnswer(f)
}
