package peer

import (
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/remote"
	"gobtl/fabric"
	"gobtl/frag"
)

// Region is memory that peers may access.
type Region = remote.Region[*Fragment]

// Withdraw ends the access of peers to an exposed region, and the replies to gets that read from
// the region.
func (en *Endings) Withdraw(r *Region) {
	en.Rest.Stir()
	en.Remote.Withdraw(r)
	en.endReads(r)
}

// endReads ends the replies to gets that read from a closed region. The unsent part of each reply
// is dropped, and the peer is informed of the failed get.
func (en *Endings) endReads(r *Region) {
	if r.Reader() != nil {
		en.Buffers.takeAlong(r)
	}
	for o := r.Reader(); o != nil; o = r.Reader() {
		f, asks := o.Fragment(), o.Asks()
		ep := f.Ep
		ep.Remote.Left(o, false)
		o.StopReading() // removes the reply from the list of readers
		en.Frags.Payloads.Drop(&f.Data)
		if f.State != FragQueued {
			continue
		}
		en.Sender.unqueue(ep, f)
		f.Err = ErrClosed
		if f.Out == 0 {
			en.Sent.complete(f, f.Err)
		}
		if ep.err == nil && !ep.Closing {
			failed := en.Frags.LendAnswer(ep)
			failed.AnswerWith(en.Remote.AnswerFailed(ep.Remote, failed, asks, frag.NackAccess))
		}
		en.Sched.Rearm(ep)
	}
}

// takeAlong prepares the close of a region. The payload of answers in flight, which the fabric
// gathers from the region, is copied into the packets' send buffers.
func (bu *Buffers) takeAlong(r *Region) {
	for i := range bu.Segs {
		s := &bu.Segs[i]
		if s.GatherLen == 0 || !s.Frag.Answer || !s.Frag.Op.Reads(r) {
			continue
		}
		b := bu.Port.Arena.Bytes(fabric.Buf(i))[s.Bytes-uint32(s.GatherLen) : s.Bytes]
		copy(b, s.Frag.Data.Gathered(s.GatherAt, s.GatherLen))
		s.GatherLen = 0
	}
	for _, c := range [...]*port.Channel{&bu.Port.Command, &bu.Port.Data} {
		for i := range c.Batch() {
			if p := &c.Batch()[i]; p.Region != 0 && bu.Segs[p.Buf].GatherLen == 0 {
				bu.Segs[p.Buf].Describe(SegToken(p.Buf), p)
			}
		}
	}
}
