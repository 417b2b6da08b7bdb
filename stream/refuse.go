package stream

import (
	"errors"
	"fmt"

	"gobtl/btl"
)

// Before the stream starts, an incompatible peer can be refused without an effect on the compatible
// peers. A refusal is reported to the peer, counted, and passed to Config.Refused.

// Reason is the reason why a peer was refused.
type Reason uint8

// The reasons.
const (
	RefusedMismatch    Reason = iota // other parameters or another protocol version
	RefusedWish                      // the peer requests more than this side allows
	RefusedTaken                     // an earlier peer is connected, or too many peers wait
	RefusedSilent                    // the peer made no progress
	RefusedAddress                   // no probe, or none of the datagrams' size, reached the peer
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
	// Strangers counts peers that requested an unknown receiver. Unread counts peers whose connection
	// was closed because the queue of control messages to them was full. Letters counts peers whose
	// connection was closed because they sent too many control messages, and control messages that
	// were dropped because all peers of the sending host together sent too many. Strangers, Unread and
	// Letters are counted for all streams of the port together.
	Strangers uint64 `json:"strangers"`
	Unread    uint64 `json:"unread"`
	Letters   uint64 `json:"letters"`
}

// Total returns the sum of all counters.
func (r *Refusals) Total() (sum uint64) {
	for _, n := range []uint64{
		r.Mismatch, r.Wish, r.Taken, r.Silent, r.Address, r.Unreachable, r.There, r.Strangers, r.Unread,
		r.Letters,
	} {
		sum += n
	}
	return sum
}

// The method "refusals" returns the refusals of a stream, together with the counters Strangers,
// Unread and Letters of the port.
func (e *Engine) refusals(st *Stats) Refusals {
	r := st.Refused
	r.Strangers, r.Unread, r.Letters = e.refused.Strangers, e.refused.Unread, e.refused.Letters
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

// errTaken tells a peer that this side refuses it because an earlier peer is connected.
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

// withLatest adds the argument "latest", which is the reason of the latest refusal, to the error of
// a sender or receiver that has found no peer in time.
func withLatest(err, latest error) error {
	if latest == nil {
		return err
	}
	return fmt.Errorf("%w; the latest that came: %w", err, inner(latest))
}

// If pendingMax receivers without a validated address are connected or connecting, makeRoom refuses
// one of them (oldestOfLargestHost), so that a new receiver can connect.
func (s *Sender) makeRoom() {
	var pending []*link
	for _, k := range s.links {
		if k.state < linkWelcomed {
			pending = append(pending, k)
		}
	}
	if len(pending) >= pendingMax {
		k := oldestOfLargestHost(pending, func(k *link) *btl.Endpoint { return k.ep })
		k.abandon(RefusedTaken, errTaken)
	}
}

// oldestOfLargestHost returns the peer that a new peer replaces, which is the oldest peer of the
// host with the most peers. A host with many peers thereby displaces its own peers, and not the
// peers of hosts with few peers. The argument "peers" of oldestOfLargestHost is in the order of
// arrival, and not empty.
func oldestOfLargestHost[T any](peers []T, ep func(T) *btl.Endpoint) T {
	count := make(map[string]int)
	for _, p := range peers {
		count[ep(p).PeerHost()]++
	}
	oldest, most := peers[0], 0
	for _, p := range peers {
		if n := count[ep(p).PeerHost()]; n > most {
			oldest, most = p, n
		}
	}
	return oldest
}

// abandon refuses a receiver. If the connection to the refused receiver is not established yet,
// abandon ends the handshake, unless another stream needs it. A receiver whose handshake is ended
// does not get the reason, because it has no connection for control messages.
func (k *link) abandon(why Reason, err error) {
	if k.state != linkConnecting {
		k.refuse(why, err)
		return
	}
	k.unmet(why, err)
	if !k.s.e.uses(k.ep) {
		k.ep.Abort()
	}
}

// errJoiners tells a receiver that the sender refuses it because of Config.JoinersMax.
var errJoiners = fmt.Errorf("%w: too many receivers have joined the stream", ErrTaken)

// The method "crowded" reports whether the receiver must not join the stream in progress, because
// of the limit Config.JoinersMax.
func (k *link) crowded() bool {
	c := &k.s.cfg
	if !k.late || c.Group != "" {
		return false
	}
	all, here, host := 0, 0, k.ep.PeerHost()
	for _, o := range k.s.links {
		if o.late && o.state >= linkSizing && o.state <= linkReady {
			if all++; o.ep.PeerHost() == host {
				here++
			}
		}
	}
	return all >= c.JoinersMax || here >= max(c.JoinersMax/4, 1)
}
