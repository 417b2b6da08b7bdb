package stream

import (
	"errors"
	"fmt"

	"gobtl/btl"
)

// Until a meeting is over a peer that does not fit is refused alone: it is told why, it is counted,
// the program is told (Config.Refused), and the meeting goes on with the others.

// Reason is why a peer was refused.
type Reason uint8

// The reasons.
const (
	RefusedMismatch    Reason = iota // it was started with other parameters, or speaks another version
	RefusedWish                      // it asks for more than this side's settings allow
	RefusedTaken                     // others were there first, or came when there was no place
	RefusedSilent                    // it did not go on
	RefusedAddress                   // nothing has come to the address that it gives for its data
	RefusedUnreachable               // there was no way to it, or it has gone
	RefusedThere                     // it does not want this side
)

// Refusal is told to Config.Refused.
type Refusal struct {
	Reason Reason
	Peer   string // its address
	// Key is that of the receiver's identity: of the other side for a sender, of this one for a
	// receiver.
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
	// Strangers asked for a receiver that is not here; Unread let too many answers wait. Both are
	// counted for all streams of the port.
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

// refusals are those of a stream, and those of the port.
func (e *Engine) refusals(st *Stats) Refusals {
	r := st.Refused
	r.Strangers, r.Unread = e.refused.Strangers, e.refused.Unread
	return r
}

// isTaken says whether what was refused may be tried again.
func isTaken(err error) bool { return errors.Is(err, ErrTaken) }

// add counts one.
func (r *Refusals) add(why Reason) {
	*[...]*uint64{
		RefusedMismatch: &r.Mismatch, RefusedWish: &r.Wish, RefusedTaken: &r.Taken,
		RefusedSilent: &r.Silent, RefusedAddress: &r.Address, RefusedUnreachable: &r.Unreachable,
		RefusedThere: &r.There,
	}[why]++
}

// errTaken is told to a peer for which there is no place now.
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

// withLatest adds why the latest peer was refused to the error of a meeting that found nobody.
func withLatest(err, latest error) error {
	if latest == nil {
		return err
	}
	return fmt.Errorf("%w; the latest that came: %w", err, latest)
}
