package conn

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
)

// Dial opens a Conn to a service of the peer. Dial returns when the peer's Node has accepted the
// Conn, which can be before the peer's Accept returns the Conn. The error of Dial is ErrService,
// ErrBacklog, ErrConns, the error of the endpoint, or the error of ctx. If the peer has no Node
// with the same tag, Dial returns btl.ErrNoHandler.
//
// If the backlog of the peer's Listener is full, Dial repeats its attempt until ctx ends. If ctx
// has no deadline, Dial repeats its attempt for at most btl.Config.HandshakeTimeout. The pauses
// between the attempts of Dial grow from a few milliseconds to one second. After the last attempt
// Dial returns ErrBacklog, joined with the error of ctx if ctx has ended.
func (n *Node) Dial(ctx context.Context, ep *btl.Endpoint, service string) (*Conn, error) {
	began, full := sinceStart(), false
	for tries := 1; ; tries++ {
		c, err := n.dialOnce(ctx, ep, service)
		if err == nil {
			return c, nil
		}
		refused := errors.Is(err, ErrBacklog)
		if refused && n.pauseDial(ctx, tries, began) {
			full = true
			continue
		}
		if refused || full && ctx.Err() != nil {
			err = fullError(tries, time.Duration(sinceStart()-began), ctx.Err())
		}
		return nil, &net.OpError{Op: "dial", Net: network, Addr: Addr{Service: service}, Err: err}
	}
}

// fullError returns the error of a Dial that has given up because the peer's backlog was full. The
// argument "ended" of fullError is the error of the context of Dial, or nil.
func fullError(tries int, took time.Duration, ended error) error {
	err := fmt.Errorf("%w: tried %d times in %v", ErrBacklog, tries, took.Round(time.Millisecond))
	if tries == 1 {
		err = fmt.Errorf("%w: tried once", ErrBacklog)
	}
	if ended != nil {
		err = fmt.Errorf("%w: %w", err, ended)
	}
	return err
}

// dialOnce performs one attempt of Dial.
func (n *Node) dialOnce(ctx context.Context, ep *btl.Endpoint, service string) (*Conn, error) {
	var c *Conn
	err := n.r.Await(ctx, func(_ *btl.Module, w runner.Waker) (err error) {
		c, err = n.open(ep, service)
		if err == nil {
			c.dialing = &request{w: w}
			c.advance()
		}
		return err
	})
	if err != nil && c != nil && ctx.Err() != nil {
		_ = c.Close() // Close informs the peer after the peer has answered.
	}
	return c, err
}

// pauseDial waits before the next attempt of Dial, and reports whether Dial should make this
// attempt. The argument "began" of pauseDial is the time at which Dial began, on the clock of
// sinceStart.
func (n *Node) pauseDial(ctx context.Context, tries int, began int64) bool {
	var random [8]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	pause := dialPause(tries, binary.LittleEndian.Uint64(random[:]))
	if _, ok := ctx.Deadline(); !ok && sinceStart()-began+int64(pause) > int64(n.dialMost) {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.r.Done(): // The next attempt returns the error of the Runner.
	case <-ctx.Done():
		return false
	}
	return true
}

// The longest possible pause between two attempts of Dial is at first dialPauseFirst, and never
// more than dialPauseMost.
const (
	dialPauseFirst = 4 * time.Millisecond
	dialPauseMost  = time.Second
)

// dialPause returns the pause after the given number of attempts. The longest possible pause
// doubles with each attempt, up to dialPauseMost. The argument "random" of dialPause selects a
// pause from half of the longest possible pause up to the longest possible pause, so that many
// dialers do not make their attempts at the same instants.
func dialPause(tries int, random uint64) time.Duration {
	longest := dialPauseFirst
	for i := 1; i < tries && longest < dialPauseMost; i++ {
		longest *= 2
	}
	half := min(longest, dialPauseMost) / 2
	return half + time.Duration(random%uint64(half))
}

// The method "open" makes a Conn that this side dials.
func (n *Node) open(ep *btl.Endpoint, service string) (*Conn, error) {
	switch {
	case n.closed:
		return nil, net.ErrClosed
	case !n.r.Owns(ep):
		return nil, btl.ErrEndpoint
	case ep.Err() != nil:
		return nil, ep.Err()
	case len(service) > serviceBytes:
		return nil, fmt.Errorf("%w: its name has %d bytes, at most %d", ErrService, len(service),
			serviceBytes)
	case n.peer(ep).opened[1] >= n.cfg.ConnsMax:
		return nil, ErrConns
	}
	n.lastID++
	for n.conns[name{ep, true, n.lastID}] != nil {
		n.lastID++
	}
	c := n.add(name{ep, true, n.lastID}, service)
	c.due |= dueOpen
	return c, nil
}
