package pml

import (
	"errors"

	"gobtl/btl"
)

// tinyMost is the maximum size, in bytes, of a message that is sent without a fragment descriptor.
const tinyMost = 256

// The type "output" passes the messages of the protocol to the module. The type
// "output" has the tag of the fragments, and the buffers for messages that need no fragment.
type output struct {
	tag    btl.Tag
	notice [headBytes]byte            // header of the kind "fin", for the put that is being prepared
	tiny   [headBytes + tinyMost]byte // a small message
}

// The method "alloc" returns a fragment for a message of n bytes, with its header.
func (o *output) alloc(to *btl.Endpoint, n int) (*btl.Fragment, error) { return to.Alloc(o.tag, n) }

// The method "give" passes a fragment to Send of package btl, which fails only if the endpoint has
// ended.
func (o *output) give(now btl.Time, to *btl.Endpoint, f *btl.Fragment) {
	if _, err := to.Send(now, f); err != nil {
		_ = to.Free(f) // the caller still owns f after an error
	}
}

// sendHead sends a message that consists only of a header, and returns true, or returns false if
// the module has no free buffer.
func (o *output) sendHead(now btl.Time, to *btl.Endpoint, h *head) bool {
	f, err := o.alloc(to, h.bytes())
	if err != nil {
		return !errors.Is(err, btl.ErrAgain) // an event reports the end of an endpoint
	}
	h.put(f.Bytes())
	o.give(now, to, f)
	return true
}

// sendEager sends an eager message without flags and without a fragment descriptor, and returns
// true, or returns false if the transport cannot send the message immediately. The data has at most
// tinyMost bytes.
func (o *output) sendEager(
	now btl.Time, to *btl.Endpoint, number uint32, tag uint64, data []byte,
) bool {
	b := o.tiny[:headBytes+len(data)]
	putEager(b, number, tag)
	copy(b[headBytes:], data)
	return to.SendImmediate(now, o.tag, b) == nil
}

// sendTiny works like sendEager, but sends the given protocol header h of headBytes bytes. The
// arguments "header" and "data" have at most tinyMost bytes together.
func (o *output) sendTiny(now btl.Time, to *btl.Endpoint, h *head, header, data []byte) bool {
	b := o.tiny[:headBytes+len(header)+len(data)]
	h.put(b)
	copy(b[headBytes+copy(b[headBytes:], header):], data)
	return to.SendImmediate(now, o.tag, b) == nil
}

// preparePut prepares a put of the next contiguous runs of a send, which have n bytes in total. The
// put of a message's last bytes carries a notification, which tells the receiver that all bytes
// were written.
func (o *output) preparePut(r *Request, runs [][]byte, n uint64) (*btl.Fragment, error) {
	ep := r.peer.ep
	switch {
	case r.moved+n == r.most:
		fin := head{kind: kindFin, a: r.theirs}
		fin.put(o.notice[:])
		return ep.PreparePutNotice(runs[0], r.handle, r.moved, o.tag, o.notice[:fin.bytes()])
	case len(runs) == 1:
		return ep.PreparePut(runs[0], r.handle, r.moved)
	default:
		return ep.PreparePutPieces(r.handle, r.moved, runs...)
	}
}
