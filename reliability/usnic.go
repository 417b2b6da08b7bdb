package reliability

import (
	"fmt"
	"time"

	"gobtl/hotel"
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// The type "usnic" implements the loss recovery of the profiles usnic and lossless, for all Senders
// of a module. Every sent segment has its own retransmission timer, which expires after 100 ms in
// the profile usnic. The first duplicate ACK causes a retransmission of the oldest segment in
// flight. The profiles usnic and lossless limit the packets in flight only by the send window and
// the credits.
type usnic struct {
	segs  *Segments
	rules *Rules
	rooms *hotel.Hotel[Token] // one for each segment
	room  []hotel.Room        // by Token, for posted segments
}

func newUsnic(segs *Segments, rules *Rules) (*usnic, error) {
	count := len(segs.segs)
	rooms, err := hotel.New[Token](hotel.Config{Rooms: count})
	return &usnic{segs: segs, rules: rules, rooms: rooms, room: make([]hotel.Room, count)}, err
}

func (u *usnic) posted(s *Sender, now mono.Time, n seq.Num, count int, limit time.Duration) {
	for i := range uint32(count) {
		u.checkin(now, s.at(n.Add(i)), limit)
	}
}

func (u *usnic) checkin(now mono.Time, t Token, limit time.Duration) {
	room, err := u.rooms.Checkin(now, max(0, min(u.stay(&u.segs.segs[t]), limit)), t)
	if err != nil {
		panic("reliability: no room for a segment: " + err.Error())
	}
	u.room[t] = room
}

// The method "stay" returns the retransmission time-out of a segment. Each retransmission of a
// segment doubles its time-out, up to ResendTimeoutMax.
func (u *usnic) stay(p *segment) time.Duration {
	if u.rules.ResendTimeout > u.rules.ResendTimeoutMax>>p.resends {
		return u.rules.ResendTimeoutMax
	}
	return u.rules.ResendTimeout << p.resends
}

// onAck processes an ACK. On a duplicate ACK that signals a gap, onAck immediately queues the
// oldest segment in flight for retransmission.
func (u *usnic) onAck(s *Sender, now mono.Time, upTo seq.Num, quiet bool,
	done []Token,
) ([]Token, AckVerdict) {
	news := s.oldest != upTo+1
	for ; s.oldest != upTo+1; s.oldest++ {
		t := s.at(s.oldest)
		if p := &u.segs.segs[t]; p.state == Posted { // the same as release, for nearly all segments
			u.rooms.Checkout(u.room[t])
			p.state = Free
			u.segs.posted--
		} else {
			u.release(t)
		}
		done = append(done, t)
	}
	s.updateSendLimit()
	switch {
	case news:
		return done, AckNew
	case s.oldest == s.next || quiet:
		return done, AckIdle
	}
	u.fastRetransmit(now, s.at(s.oldest))
	return done, AckDuplicate
}

func (u *usnic) fastRetransmit(now mono.Time, t Token) {
	p := &u.segs.segs[t]
	if p.resends == 0 || now.Sub(p.postedAt) >= u.rules.DupAckHold {
		u.sendAgain(t, CauseDupAck)
	}
}

// sendAgain queues a segment in the state Posted for retransmission, and stops the segment's timer.
func (u *usnic) sendAgain(t Token, cause Cause) {
	if u.segs.segs[t].state == Posted { // else the segment is queued already
		u.rooms.Checkout(u.room[t])
		u.segs.again(t, cause)
	}
}

func (u *usnic) release(t Token) {
	p := &u.segs.segs[t]
	if p.state == Posted {
		u.rooms.Checkout(u.room[t])
	}
	u.segs.release(t, p)
}

func (u *usnic) abandon(s *Sender) {
	for n := s.oldest; n != s.next; n++ {
		if t := s.at(n); u.segs.segs[t].state == Posted {
			u.rooms.Checkout(u.room[t])
		}
	}
}

func (u *usnic) expire(now mono.Time) *Sender {
	for {
		t, _, ok := u.rooms.Evict(now)
		if !ok {
			return nil
		}
		u.segs.again(t, CauseTimeout)
	}
}

func (u *usnic) stopIdle() {}

func (u *usnic) deadline() mono.Time { return u.rooms.Deadline() }

func (u *usnic) running() int { return u.rooms.Len() }

func (u *usnic) checkTimers() error {
	for i := range u.segs.segs {
		if u.segs.segs[i].state != Posted {
			continue
		}
		if guest, ok := u.rooms.Knock(u.room[i]); !ok || guest != Token(i) {
			return fmt.Errorf("reliability: posted segment %d has no room", i)
		}
	}
	if u.rooms.Len() != u.segs.posted {
		return fmt.Errorf("reliability: %d posted segments, %d rooms let", u.segs.posted, u.rooms.Len())
	}
	return nil
}

func (u *usnic) counts() Counts { return Counts{} }
