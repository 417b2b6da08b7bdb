package btl

import "gobtl/btl/internal/peer"

// Send gives the fragment f to the module, which sends f in one of the following ways:
//
//   - A single small fragment is posted to the fabric immediately, if the endpoint is connected,
//     its queue is empty, its window is open and the command channel has room for a packet. A small
//     fragment counts as single if the endpoint has sent nothing in the present call of Progress
//     (or since the latest call), and has no burst of packets in flight.
//   - A fragment that fits into one packet but is too large for the command channel is posted
//     immediately if the endpoint has at most two packets in flight.
//   - Small fragments that are sent after a single small fragment share a packet. A packet of
//     several small fragments is sent in the present call of Progress, or at the beginning of the
//     next call.
//   - Fragments that fit into one packet but are too large to share a packet are posted in batches,
//     the last batch by the next call of Progress.
//   - A fragment that is not sent in one of the ways above joins the endpoint's queue, an urgent
//     fragment at the front.
//
// Send returns Queued if f has joined the queue, if f.Signal is set, or if the fabric reads the
// payload in place. For a get, an atomic operation, and a put with a completion notification, Send
// always returns Queued. If Send returns neither Queued nor an error, it returns Done. After Queued
// or Done, the caller no longer owns f. The argument "now" of Send is the present time, which a
// handler gets from Endpoint.Now. After an error the caller still owns f. The error of Send is
// ErrState, ErrTooLarge, ErrUnsupported, ErrClosed, or the error that has ended the endpoint. The
// immediate sending of a single small fragment is modelled on the fast send path of Open MPI's
// usnic BTL.
func (ep *Endpoint) Send(now Time, f *Fragment) (Status, error) {
	done, err := ep.c.All.Sender.Send(&ep.c, now, &f.c, peer.SendOptions{
		Signal: f.Signal, Urgent: f.Urgent, Told: f.OnDone != nil,
	})
	switch {
	case err != nil:
		return 0, err
	case done:
		f.clear()
		return Done, nil
	}
	return Queued, nil
}

// SendImmediate sends a copy of data immediately, or in the next call of Progress as part of a
// shared packet. SendImmediate returns ErrAgain if data cannot be sent at once, because the queue
// is not empty, the window is closed or no buffer is free. SendImmediate returns ErrTooLarge for
// data longer than MaxTiny, and otherwise the errors of Send. SendImmediate is the cheapest way to
// send a small message, like sendi of Open MPI's usnic.
func (ep *Endpoint) SendImmediate(now Time, tag Tag, data []byte) error {
	return ep.c.All.Sender.SendImmediate(&ep.c, now, uint8(tag), data)
}

// Refused returns the number of messages that the peer has refused after Send or SendImmediate had
// returned Done. The result "last" of Refused is the reason of the latest refusal, ErrNoHandler or
// ErrRemoteAccess. The function given to the next Flush gets the reason of the latest refusal as
// its argument. Over a reliable fabric, the peer might report refusals only at a flush, or when the
// peer renews the credits.
func (ep *Endpoint) Refused() (messages uint64, last error) { return ep.c.Flushes.Refusals() }

// Flush makes Progress call fn, if fn is not nil, when the peer has acknowledged everything that
// was given to Send before the call of Flush. The function fn gets ErrNoHandler or ErrRemoteAccess
// if the peer has refused messages after Send had returned Done (see Refused). If the endpoint ends
// before the flush is complete, the function given to Flush gets the error of Endpoint.Err. On an
// ended endpoint, Flush might call fn at once. The argument "now" of Flush is the present time.
func (ep *Endpoint) Flush(now Time, fn func(error)) {
	ep.c.All.Flushes.Flush(&ep.c, now, fn)
}

// Fence orders sends to the peer. Fragments given to Send after the call of Fence are sent only
// when all fragments given to Send before the call are done. A message is done when the peer has
// acknowledged it. A put is done when all bytes are written, and a get or an atomic operation is
// done when its answer has arrived. Fence does not block. While a fence is pending, SendImmediate
// returns ErrAgain. Without a Fence, the peer might execute operations and messages in a different
// order than they were sent. The argument "now" of Fence is the present time.
func (ep *Endpoint) Fence(now Time) { ep.c.All.Flushes.Fence(&ep.c, now) }
