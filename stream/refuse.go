package stream

import (
	"errors"
	"fmt"

	"gobtl/btl"
)

// Before the stream starts, an incompatible peer can be refused without an effect on other peers. A
// refusal is reported to the peer, counted, and passed to Config.Refused.

// Reason is the reason why a peer was refused.
type Reason uint8

// The reasons.
const (
	RefusedMismatch    Reason = iota // other parameters or another protocol version
	RefusedWish                      // the peer requests more than this side allows
	RefusedTaken                     // peers that came earlier have the place, or too many peers wait
	RefusedSilent                    // the peer made no progress
	RefusedAddress                   // no probe has arrived at the peer's data address
	RefusedUnreachable               // the peer was unreachable, or is gone
	RefusedThere                     // the peer refuses this side
)

// Refusal is the argument of Config.Refused.
type Refusal struct {
	Reason Reason
	Peer   string // address of the peer
	// Key is the key of the receiver's identity. For a sender, Key is the key of the peer. For a
	// receiver, Key is the receiver's own key.
	Key uint64
	Err error // wraps ErrTaken if a later attempt may succeed
}

// Refusals counts the peers that were refused before the stream with them began.
type Refusals struct {
	Mismatch    uint64 `json:"mismatch"`
	Wish        uint64 `json:"wish"`
	Taken       uint64 `json:"taken"`
	Silent      uint64 `json:"silent"`
	Address     uint64 `json:"address"`
	Unreachable uint64 `json:"unreachable"`
	There       uint64 `json:"there"`
	// Strangers counts peers that requested an unknown receiver. Unread counts peers whose queue of
	// control messages was full. Strangers and Unread are counted for all streams of the port
	// together.
	Strangers uint64 `json:"strangers"`
	Unread    uint64 `json:"unread"`
}

// Total returns the sum of all counters.
func (r *Refusals) Total() (sum uint64) {
	for _, n := range []uint64{
		r.Mismatch, r.Wish, r.Taken, r.Silent, r.Address, r.Unreachable, r.There, r.Strangers, r.Unread,
	} {
		sum += n
	}
	return sum
}

// refusals returns the refusals of a stream, and Strangers and Unread of the port.
func (e *Engine) refusals(st *Stats) Refusals {
	r := st.Refused
	r.Strangers, r.Unread = e.refused.Strangers, e.refused.Unread
	return r
}

// isTaken reports whether a refused peer may try again.
func isTaken(err error) bool { return errors.Is(err, ErrTaken) }

// add counts one refusal.
func (r *Refusals) add(why Reason) {
	*[...]*uint64{
		RefusedMismatch: &r.Mismatch, RefusedWish: &r.Wish, RefusedTaken: &r.Taken,
		RefusedSilent: &r.Silent, RefusedAddress: &r.Address, RefusedUnreachable: &r.Unreachable,
		RefusedThere: &r.There,
	}[why]++
}

// errTaken is sent to a peer that is refused because another peer is connected.
var errTaken = fmt.Errorf("%w: another peer was there first", ErrTaken)

// codeOf returns the code of an abort message for the reason of a refusal.
func codeOf(why Reason) string {
	if why == RefusedTaken {
		return codeTaken
	}
	return ""
}

// note counts a refusal, and calls Config.Refused.
func (c *Config) note(st *Stats, why Reason, ep *btl.Endpoint, key uint64, err error) {
	c.noteAt(st, why, ep.PeerAddress(), key, err)
}

// noteAt counts a refusal of a peer at an address, and calls Config.Refused.
func (c *Config) noteAt(st *Stats, why Reason, address string, key uint64, err error) {
	st.Refused.add(why)
	if c.Refused != nil {
		c.Refused(Refusal{Reason: why, Peer: address, Key: key, Err: err})
	}
}

// withLatest adds the reason of the latest refusal to err, the error of a side that has found no
// peer.
func withLatest(err, latest error) error {
	if latest == nil {
		return err
	}
	return fmt.Errorf("%w; the latest that came: %w", err, latest)
}

// makeRoom refuses a receiver if pendingMax receivers have no validated address. To choose the
// receiver, makeRoom takes the host with the most such receivers, and refuses the oldest of them,
// so that one host does not displace the receivers of other hosts.
func (s *Sender) makeRoom() {
	pending, count := 0, make(map[string]int)
	for _, k := range s.links {
		if k.state < linkWelcomed {
			pending++
			count[k.ep.PeerHost()]++
		}
	}
	if pending < pendingMax {
		return
	}
	var first *link
	most := 0
	for _, k := range s.links {
		if n := count[k.ep.PeerHost()]; k.state < linkWelcomed && n > most {
			first, most = k, n
		}
	}
	first.abandon(RefusedTaken, errTaken)
}

// abandon refuses a receiver. If the receiver has not answered yet, no more handshake packets are
// sent to its address.
func (k *link) abandon(why Reason, err error) {
	connecting := k.state == linkConnecting
	k.refuse(why, err)
	if connecting && !k.s.e.uses(k.ep) {
		k.ep.Abort()
	}
}

// errJoiners is sent to a receiver that is refused because of Config.JoinersMax.
var errJoiners = fmt.Errorf("%w: too many receivers have joined the stream", ErrTaken)

// crowded reports whether Config.JoinersMax forbids that the receiver joins a stream in progress.
func (k *link) crowded() bool {
	c := &k.s.cfg
	if !k.late || c.Group != "" {
		return false
	}
	all, here, host := 0, 0, k.ep.PeerHost()
	for _, o := range k.s.links {
		if o.late && (o.state == linkStarted || o.state == linkReady) {
			if all++; o.ep.PeerHost() == host {
				here++
			}
		}
	}
	return all >= c.JoinersMax || here >= max(c.JoinersMax/4, 1)
}
