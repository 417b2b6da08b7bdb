package peer

import (
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/remote"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/reliability"
)

// Region is memory that peers are allowed to access.
type Region = remote.Region[*Fragment]

// Withdraw ends the access of peers to an exposed region, and ends the replies to gets that read
// from the region.
func (en Endings) Withdraw(r *Region) {
	en.Rest.Stir()
	en.Remote.Withdraw(r)
	en.endReads(r)
}

// endReads ends the replies to gets that read from a closed region. endReads drops the unsent part
// of each reply, and reports to the peer that the get has failed.
func (en Endings) endReads(r *Region) {
	if r.Reader() != nil {
		en.Buffers.takeAlong(r)
	}
	for o := r.Reader(); o != nil; o = r.Reader() {
		f, asks := o.Fragment, o.Asks()
		ep := f.Ep
		ep.Remote.Left(o, false)
		o.StopReading() // removes the reply from the list of readers
		en.Frags.Payloads.Drop(&f.Data)
		if f.state != fragQueued {
			continue
		}
		en.Sender.unqueue(ep, f)
		f.Err = ErrClosed
		if f.out == 0 {
			en.Sent.complete(f, f.Err)
		}
		if ep.Err() == nil && !ep.Closing {
			failed := en.Frags.LendAnswer(ep)
			failed.AnswerWith(en.Remote.AnswerFailed(ep.Remote, failed, asks, frag.NackAccess))
		}
		en.Sched.Rearm(ep)
	}
}

// takeAlong prepares the close of a region. For each packet in flight whose payload the fabric
// gathers from the region, takeAlong copies the payload into the packet's send buffer.
func (bu *Buffers) takeAlong(r *Region) {
	for i := range bu.segs {
		s := &bu.segs[i]
		if s.gatherLen == 0 || !s.frag.answer || !s.frag.Op.Reads(r) {
			continue
		}
		b := bu.Port.Arena.Bytes(fabric.Buf(i))[s.bytes-uint32(s.gatherLen) : s.bytes]
		copy(b, s.frag.Data.Gathered(s.gatherAt, s.gatherLen))
		s.gatherLen = 0
	}
	for _, c := range [...]*port.Channel{&bu.Port.Command, &bu.Port.Data} {
		for i := range c.Batch {
			if p := &c.Batch[i]; p.Region != 0 && bu.segs[p.Buf].gatherLen == 0 {
				bu.segs[p.Buf].Describe(reliability.Token(p.Buf), p)
			}
		}
	}
}
