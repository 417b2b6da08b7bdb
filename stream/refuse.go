package stream

import (
	"errors"
	"fmt"

	"gobtl/btl"
)

// Until the stream starts, a peer that does not fit is refused without an effect on other peers.
// The peer is told the reason, the refusal is counted, and the program is told (Config.Refused).

// Reason is the reason why a peer was refused.
type Reason uint8

// The reasons.
const (
	RefusedMismatch    Reason = iota // it was started with other parameters, or speaks another version
	RefusedWish                      // it asks for more than this side's settings allow
	RefusedTaken                     // other peers were first, or there was no place for it
	RefusedSilent                    // it made no progress
	RefusedAddress                   // no probe has arrived at its data address
	RefusedUnreachable               // it was unreachable, or has gone
	RefusedThere                     // it does not want this side
)

// Refusal is the argument of Config.Refused.
type Refusal struct {
	Reason Reason
	Peer   string // its address
	// Key is the key of the receiver's identity: for a sender that of the peer, for a receiver its
	// own.
	Key uint64
	Err error // wraps ErrTaken where the peer, or this side, may try again
}

// Refusals counts the peers that were refused before a stream began with them.
type Refusals struct {
	Mismatch    uint64 `json:"mismatch"`
	Wish        uint64 `json:"wish"`
	Taken       uint64 `json:"taken"`
	Silent      uint64 `json:"silent"`
	Address     uint64 `json:"address"`
	Unreachable uint64 `json:"unreachable"`
	There       uint64 `json:"there"`
	// Strangers counts peers that asked for an unknown receiver. Unread counts peers that left too
	// many messages unread. Both cover all streams of the port.
	Strangers uint64 `json:"strangers"`
	Unread    uint64 `json:"unread"`
}

// Total is the sum of all reasons.
func (r *Refusals) Total() (sum uint64) {
	for _, n := range []uint64{
		r.Mismatch, r.Wish, r.Taken, r.Silent, r.Address, r.Unreachable, r.There, r.Strangers, r.Unread,
	} {
		sum += n
	}
	return sum
}

// refusals holds the refusals of a stream and of the port.
func (e *Engine) refusals(st *Stats) Refusals {
	r := st.Refused
	r.Strangers, r.Unread = e.refused.Strangers, e.refused.Unread
	return r
}

// isTaken reports whether a refused peer may try again.
func isTaken(err error) bool { return errors.Is(err, ErrTaken) }

// add counts one.
func (r *Refusals) add(why Reason) {
	*[...]*uint64{
		RefusedMismatch: &r.Mismatch, RefusedWish: &r.Wish, RefusedTaken: &r.Taken,
		RefusedSilent: &r.Silent, RefusedAddress: &r.Address, RefusedUnreachable: &r.Unreachable,
		RefusedThere: &r.There,
	}[why]++
}

// errTaken is sent to a peer for which there is no place now.
var errTaken = fmt.Errorf("%w: another peer was there first", ErrTaken)

// codeOf is the code of an abort for a reason.
func codeOf(why Reason) string {
	if why == RefusedTaken {
		return codeTaken
	}
	return ""
}

// note counts a refusal and tells the program.
func (c *Config) note(st *Stats, why Reason, ep *btl.Endpoint, key uint64, err error) {
	st.Refused.add(why)
	if c.Refused != nil {
		c.Refused(Refusal{Reason: why, Peer: ep.PeerAddress(), Key: key, Err: err})
	}
}

// withLatest adds the reason of the latest refusal to the error of a side that found no peer.
func withLatest(err, latest error) error {
	if latest == nil {
		return err
	}
	return fmt.Errorf("%w; the latest that came: %w", err, latest)
}
