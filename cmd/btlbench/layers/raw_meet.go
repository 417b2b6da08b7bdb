package layers

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"gobtl/fabric"
	"gobtl/internal/mono"
)

// A raw port sends data only to an address at which the peer has proved to receive. The peer has
// offered that address on the control connection, and it may belong to a third party. Each side
// draws a random number, and the peer must return the number, which it learns only at the offered
// address:
//
//	client (number c)          server (number s)
//	c, 0                 ->
//	                     <-    s, c
//	c, s                 ->
//
// The server sends nothing before it gets the client's number. The raw layer does not ask the
// provider for the senders of datagrams, because that would cost time for each datagram. Therefore
// a bound limits what a third party can get, and the numbers of both sides mark the control
// datagrams of the rounds.

const (
	// rawMeetSends is the largest number of datagrams in a meeting. Repetitions use at most
	// rawMeetRepeats of them, so that a slow peer still gets answers.
	rawMeetSends   = 32
	rawMeetRepeats = 24
	// rawMeetEvery is the time after which the first datagram without an answer is sent again. Each
	// further repetition waits longer by rawMeetEvery.
	rawMeetEvery = 10 * time.Millisecond
	// rawLinger is how long the client answers the repetitions of a server that has not got the last
	// datagram.
	rawLinger = 50 * time.Millisecond
)

// A datagram of a meeting has the length of a control datagram, a magic number, a kind, and the two
// numbers.
const (
	rawMineAt   = 16 // the sender's number
	rawTheirsAt = 24 // the receiver's number, or 0
)

// meeting is the state of a raw port until the peer has proved to receive at its address.
type meeting struct {
	mine, theirs uint64
	proven       bool
	heardAt      mono.Time // the latest datagram of the meeting
	sends        int
	nextAt       mono.Time // to repeat the latest datagram
}

// meet returns nil when the peer has proved to receive at its address.
func (p *rawPort) meet(timeout time.Duration) error {
	var number [8]byte
	if _, err := rand.Read(number[:]); err != nil {
		return err
	}
	m := meeting{mine: binary.LittleEndian.Uint64(number[:])}
	now := clock()
	for deadline := now.Add(timeout); ; now = clock() {
		heard, err := p.hear(&m, now)
		if err != nil {
			return err
		}
		switch {
		case m.proven && (p.server || now.Sub(m.heardAt) >= rawLinger):
			return nil
		case now >= deadline:
			return fmt.Errorf("%w at the address that it has offered, within %v", errSilent, timeout)
		}
		begun := !p.server || m.theirs != 0
		if heard || begun && !m.proven && now >= m.nextAt && m.sends < rawMeetRepeats {
			if err := p.sayNumbers(&m, now); err != nil {
				return err
			}
		}
		if p.waiter.sleep(time.Millisecond) != nil {
			time.Sleep(idleNap)
		}
	}
}

// hear handles the datagrams that have arrived, and reports whether one of them belongs to the
// meeting.
func (p *rawPort) hear(m *meeting, now mono.Time) (heard bool, err error) {
	n, err := p.poll(p.out)
	if err != nil {
		return false, err
	}
	for i := range p.out[:n] {
		c := &p.out[i]
		p.repost = append(p.repost, c.Buf)
		if c.Errno != 0 || int(c.Len) != rawControlBytes {
			continue
		}
		b := p.arena.Bytes(c.Buf)
		if binary.LittleEndian.Uint64(b) != rawControlMagic ||
			binary.LittleEndian.Uint64(b[rawKindAt:]) != rawMeet {
			continue
		}
		heard, m.heardAt = true, now
		m.theirs = binary.LittleEndian.Uint64(b[rawMineAt:])
		if binary.LittleEndian.Uint64(b[rawTheirsAt:]) == m.mine {
			m.proven, p.key = true, m.mine^m.theirs
		}
	}
	return heard, p.returnReceives()
}

// sayNumbers sends both numbers, if the address may get another datagram. Without room in the send
// queue, sayNumbers sends nothing, and a repetition follows.
func (p *rawPort) sayNumbers(m *meeting, now mono.Time) error {
	if m.sends >= rawMeetSends || len(p.free) == 0 {
		return nil
	}
	m.sends++
	m.nextAt = now.Add(time.Duration(m.sends) * rawMeetEvery)
	buf := p.free[len(p.free)-1]
	b := p.arena.Bytes(buf)[:rawControlBytes]
	clear(b)
	binary.LittleEndian.PutUint64(b, rawControlMagic)
	binary.LittleEndian.PutUint64(b[rawKindAt:], rawMeet)
	binary.LittleEndian.PutUint64(b[rawMineAt:], m.mine)
	binary.LittleEndian.PutUint64(b[rawTheirsAt:], m.theirs)
	p.sends[0] = fabric.Send{To: p.peer, Buf: buf, Len: rawControlBytes}
	n, err := p.ep.Post(p.sends[:1])
	if n == 1 && rawControlBytes > p.caps.InjectBytes {
		p.free = p.free[:len(p.free)-1]
	}
	if errors.Is(err, fabric.ErrAgain) {
		return nil
	}
	return err
}
