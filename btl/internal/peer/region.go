package peer

import (
	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/remote"
	"gobtl/frag"
)

// Region is memory that peers are allowed to access.
type Region = remote.Region[*Fragment]

// Withdraw ends the access of peers to an exposed region, and ends the replies to those gets that
// read from the region.
func (en Endings) Withdraw(r *Region) {
	en.Rest.Stir()
	en.Remote.Withdraw(r)
	en.endReads(r)
}

// endReads ends the replies to those gets that read from a closed region. endReads drops the unsent
// part of each reply that it ends, and reports to the peer that the get has failed.
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
		f.Err = errs.ErrClosed
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
