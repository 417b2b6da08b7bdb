package reliability

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gobtl/internal/mono"
)

// The recovery model is a simple model of sender, receiver and network. The model keeps the fate of
// each packet's copies in maps, and computes every count by walking the maps. Token i carries
// packet i.

// modelPacket is a packet that was sent at least once.
type modelPacket struct {
	sentAt  mono.Time // the latest copy
	known   bool      // the sender has been told that it arrived
	pending bool      // on the resend list
}

// modelCopy is a copy of a packet in transit.
type modelCopy struct {
	packet int
	at     mono.Time // when the copy was sent
}

// modelAck is an acknowledgement in transit.
type modelAck struct {
	upTo  int // all packets below upTo have arrived
	early []int
	sack  bool
	last  int
	delay time.Duration
	at    mono.Time // when the ACK was sent
	dups  uint32
}

type recoveryModel struct {
	*driven

	oneWay  time.Duration // least delay of the network
	packets []modelPacket
	copies  []modelCopy
	acks    []modelAck
	arrived map[int]bool
	last    int // the packet that arrived last, and when
	lastAt  mono.Time
	dups    uint32

	acked   int // packets that the sender knows to have arrived
	again   int // packets retransmitted because they were found lost
	most    int // most packets in the window at the same time
	began   mono.Time
	refused map[int]bool

	reserved bool // the window has been open since the latest packet was sent
}

func newRecoveryModel(t *rapid.T) *recoveryModel {
	m := &recoveryModel{
		arrived: map[int]bool{}, refused: map[int]bool{}, last: -1,
		oneWay: time.Duration(rapid.IntRange(1, 5000).Draw(t, "oneWayUs")) * time.Microsecond,
	}
	m.driven = newDriven(t, func(r *Rules) {
		r.WindowPackets = 1 << rapid.IntRange(0, 9).Draw(t, "windowShift")
		r.InitialWindow = rapid.IntRange(2, 64).Draw(t, "initialWindow")
		if rapid.Bool().Draw(t, "fixed") {
			r.Congestion = CongestionFixed
		}
	})
	m.policy().selective = rapid.IntRange(0, 3).Draw(t, "selective") > 0
	m.began = m.now
	return m
}

// post sends new packets, as many as the window permits. The number of the first packet is possibly
// reserved, so that the packet may be sent although the byte limit is reached.
func (m *recoveryModel) post(count int, c Channel) {
	room := m.snd.Room()
	if m.reserved {
		room, m.reserved = max(room, 1), false
	}
	for count = min(count, room, len(m.segs.segs)-m.sent); count > 0; count-- {
		m.packets = append(m.packets, modelPacket{sentAt: m.now})
		m.copies = append(m.copies, modelCopy{packet: m.sent, at: m.now})
		m.send(1, c)
		m.snd.Carry(m.sent)
	}
	m.most = max(m.most, int(m.snd.next.Sub(m.snd.oldest)))
}

// resend retransmits the packets on the resend list.
func (m *recoveryModel) resend(t *rapid.T) {
	for {
		token, cause, ok := m.segs.PopResend()
		if !ok {
			return
		}
		p := &m.packets[token]
		age := m.now.Sub(p.sentAt)
		switch {
		case p.known:
			t.Fatalf("packet %d is sent again, and has arrived", token)
		case cause == CauseRefused && !m.refused[int(token)]:
			t.Fatalf("packet %d was not refused", token)
		case cause != CauseRefused && age < min(2*m.oneWay, m.segs.rules.ProbeTimeoutMin):
			t.Fatalf("packet %d is sent again, cause %d, %v after it was sent, with %v one way", token,
				cause, age, m.oneWay)
		case (cause == CauseLost || cause == CauseDupAck) && age < 2*m.oneWay && m.measured():
			t.Fatalf("packet %d is found lost, cause %d, %v after it was sent, with %v one way", token,
				cause, age, m.oneWay)
		case cause == CauseLost:
			m.again++
		}
		p.sentAt, p.pending = m.now, false
		m.copies = append(m.copies, modelCopy{packet: int(token), at: m.now})
		m.snd.Repost(m.now, token, time.Hour)
	}
}

// measured reports whether any round trip was measured. Before the first measurement,
// retransmissions follow a guess.
func (m *recoveryModel) measured() bool {
	return m.policy().paths[Command].srtt+m.policy().paths[Data].srtt != 0
}

// budget is an upper bound of the packets that may have been retransmitted as lost. The bound is
// the initial budget, a share of the delivered packets, and in each round trip some packets and a
// share of the window.
func (m *recoveryModel) budget() int {
	rounds := int(m.now.Sub(m.began)/(2*m.oneWay)) + 1
	return budgetFirst/budgetUnits + m.acked/budgetUnits + rounds*(budgetRound/budgetUnits+m.most/4)
}

// arrive moves a copy from the network to the peer.
func (m *recoveryModel) arrive(i int) {
	c := m.copies[i]
	m.copies = slices.Delete(m.copies, i, i+1)
	m.now = max(m.now, c.at.Add(m.oneWay))
	if m.arrived[c.packet] {
		m.dups++
		return
	}
	m.arrived[c.packet] = true
	m.last, m.lastAt = c.packet, m.now
}

// answer makes the peer send an acknowledgement.
func (m *recoveryModel) answer() {
	a := modelAck{last: m.last, at: m.now, dups: m.dups, sack: m.policy().selective}
	for m.arrived[a.upTo] {
		a.upTo++
	}
	for i := a.upTo; i < m.sent; i++ {
		if m.arrived[i] {
			a.early = append(a.early, i)
		}
	}
	if a.last < 0 {
		a.last = a.upTo - 1
	} else {
		a.delay = m.now.Sub(m.lastAt)
	}
	if m.policy().selective && len(a.early) == 0 && m.sent%3 == 0 { // piggybacked on another packet
		a.sack = false
	}
	m.acks = append(m.acks, a)
}

// hear passes an acknowledgement to the sender, and compares the freed packets with the model.
func (m *recoveryModel) hear(t *rapid.T, i int) {
	a := m.acks[i]
	m.acks = slices.Delete(m.acks, i, i+1)
	m.now = max(m.now, a.at.Add(m.oneWay))
	var want []Token
	oldest := int(m.snd.oldest - adaptiveFirst)
	news := func(i int) {
		if p := &m.packets[i]; !p.known {
			p.known, p.pending = true, false
			want = append(want, Token(i))
		}
	}
	if a.upTo >= oldest { // an older ACK has no effect
		for i := range a.upTo {
			news(i)
		}
		for _, i := range a.early {
			if a.sack {
				news(i)
			}
		}
	}
	if a.sack {
		sack := Sack{Last: adaptiveFirst.Add(uint32(a.last)), Delay: a.delay, Copies: a.dups}
		for _, i := range a.early {
			bit := i - a.upTo - 1
			for len(sack.Words) <= bit/64 {
				sack.Words = append(sack.Words, 0)
			}
			sack.Words[bit/64] |= 1 << (bit % 64)
		}
		m.done, _ = m.snd.OnSack(m.now, adaptiveFirst.Add(uint32(a.upTo))-1, 4096, &sack,
			m.done[:0])
	} else {
		m.done, _ = m.snd.OnAck(m.now, adaptiveFirst.Add(uint32(a.upTo))-1, 4096, false,
			m.done[:0])
	}
	slices.Sort(m.done)
	for _, token := range m.done {
		m.snd.Carry(-1 - int(token))
	}
	if !slices.Equal(m.done, want) {
		t.Fatalf("an ACK of %d and %v frees %v, want %v", a.upTo, a.early, m.done, want)
	}
	m.acked += len(want)
}

// refuse makes the peer refuse a packet in flight.
func (m *recoveryModel) refuse(i int) {
	if token, ok := m.snd.Token(adaptiveFirst.Add(uint32(i))); ok {
		m.refused[i] = true
		m.snd.Refuse(token)
	}
}

// noMemory delivers a copy to the peer, which refuses the copy for lack of memory.
func (m *recoveryModel) noMemory(i int) {
	c := m.copies[i]
	if m.arrived[c.packet] {
		return
	}
	m.copies = slices.Delete(m.copies, i, i+1)
	m.now = max(m.now, c.at.Add(2*m.oneWay))
	if token, ok := m.snd.Token(adaptiveFirst.Add(uint32(c.packet))); ok {
		m.snd.NoMemory(m.now, token, 1+c.packet, time.Hour)
	}
}

// compare checks that the sender's counts are those of the model.
func (m *recoveryModel) compare() error {
	inFlight, pipe, oldest := 0, 0, len(m.packets)
	for i, p := range m.packets {
		if p.known {
			continue
		}
		oldest = min(oldest, i)
		inFlight++
		s := &m.segs.segs[i]
		if s.state == Posted && !s.lost {
			pipe++
		}
	}
	r := m.policy()
	m.reserved = m.reserved || m.snd.Open()
	switch {
	case m.reserved && !m.snd.Admits():
		return errors.New("the window has no room for the packet whose number is reserved")
	case m.snd.InFlight() != inFlight:
		return fmt.Errorf("%d packets not acknowledged, counted %d", inFlight, m.snd.InFlight())
	case int(r.onTheWay(&m.snd)) != pipe || m.snd.Path().InFlightPackets != pipe:
		return fmt.Errorf("%d packets in flight, counted %d", pipe, r.onTheWay(&m.snd))
	case m.snd.oldest != adaptiveFirst.Add(uint32(oldest)):
		return fmt.Errorf("oldest packet %d, by the sender %d", oldest, m.snd.oldest-adaptiveFirst)
	case m.again > m.budget():
		return fmt.Errorf("%d lost packets sent again, the budget is %d", m.again, m.budget())
	case !r.fixed && m.snd.Room() > max(1, int(r.cong.window)-pipe):
		return fmt.Errorf("room for %d packets, %d in flight, congestion window %d", m.snd.Room(), pipe,
			r.cong.window)
	case m.snd.Room() > int(m.snd.window)-int(m.snd.next.Sub(m.snd.oldest)):
		return fmt.Errorf("room for %d packets, the window is %d", m.snd.Room(), m.snd.window)
	}
	return nil
}

// drain lets all packets arrive from now on. All packets must be acknowledged within a bounded
// time.
func (m *recoveryModel) drain(t *rapid.T) {
	for range 100 * (m.sent + 10) {
		if m.snd.InFlight() == 0 {
			return
		}
		for len(m.copies) > 0 {
			m.arrive(0)
		}
		m.answer()
		for len(m.acks) > 0 {
			m.hear(t, 0)
		}
		m.resend(t)
		if len(m.copies) == 0 {
			m.now = max(m.now, m.segs.Deadline())
			m.expire()
			m.resend(t)
		}
		if err := m.compare(); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("%d of %d packets are still in flight", m.snd.InFlight(), m.sent)
}

// TestRecoveryModel runs a sender of the adaptive profile through random events, in step with the
// model.
func TestRecoveryModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newRecoveryModel(t)
		pick := func(n int, label string) int {
			if rapid.IntRange(0, 3).Draw(t, label+"First") > 0 {
				return 0 // in order, mostly
			}
			return rapid.IntRange(0, n-1).Draw(t, label)
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				m.check()
				if err := m.compare(); err != nil {
					t.Fatal(err)
				}
			},
			"send": func(t *rapid.T) {
				m.post(rapid.IntRange(1, 200).Draw(t, "count"),
					Channel(rapid.IntRange(0, 1).Draw(t, "channel")))
			},
			"arrive": func(t *rapid.T) {
				for n := rapid.IntRange(1, 50).Draw(t, "n"); n > 0 && len(m.copies) > 0; n-- {
					m.arrive(pick(len(m.copies), "copy"))
				}
			},
			"duplicate": func(t *rapid.T) {
				if n := len(m.copies); n > 0 {
					m.copies = append(m.copies, m.copies[rapid.IntRange(0, n-1).Draw(t, "copy")])
				}
			},
			"lose": func(t *rapid.T) {
				for n := rapid.IntRange(1, 100).Draw(t, "n"); n > 0 && len(m.copies) > 0; n-- {
					i := rapid.IntRange(0, len(m.copies)-1).Draw(t, "copy")
					m.copies = slices.Delete(m.copies, i, i+1)
				}
			},
			"answer": func(*rapid.T) { m.answer() },
			"hear": func(t *rapid.T) {
				if n := len(m.acks); n > 0 {
					m.hear(t, pick(n, "ack"))
				}
			},
			"loseAck": func(t *rapid.T) {
				if n := len(m.acks); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(t, "ack")
					m.acks = slices.Delete(m.acks, i, i+1)
				}
			},
			"refuse": func(t *rapid.T) {
				if m.sent > 0 {
					m.refuse(rapid.IntRange(0, m.sent-1).Draw(t, "packet"))
				}
			},
			"noMemory": func(t *rapid.T) {
				for n := rapid.IntRange(1, 50).Draw(t, "n"); n > 0 && len(m.copies) > 0; n-- {
					m.noMemory(pick(len(m.copies), "copy"))
				}
			},
			"bound": func(t *rapid.T) {
				m.snd.BoundBytes(m.snd.oldest-1, math.MaxUint16, rapid.IntRange(0, 5000).Draw(t, "bytes"))
			},
			"rest": func(*rapid.T) { m.snd.Rest(m.now) },
			"wait": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "us")) * time.Microsecond)
			},
			"expire": func(t *rapid.T) {
				if rapid.Bool().Draw(t, "due") {
					m.now = max(m.now, min(m.segs.Deadline(), m.now.Add(time.Second)))
				}
				m.expire()
			},
			"resend": m.resend,
		})
		m.drain(t)
	})
}
