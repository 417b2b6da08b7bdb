package reliability

import (
	"slices"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// modelSegment is a segment in flight in the model. The field n counts packets from 0 and never
// wraps.
type modelSegment struct {
	sender   int
	n        int64
	state    State
	popped   bool
	resends  int
	cause    Cause
	postedAt mono.Time
	due      mono.Time
}

// modelSender is the window in numbers that do not wrap.
type modelSender struct {
	first                       seq.Num
	window, oldest, next, limit int64
	inFlight                    []Token // packets in [oldest, next)
}

// pair applies the same calls to Senders with their Segments and to a model, and compares every
// result. The model keeps plain lists, and finds everything by walking the lists.
type pair struct {
	t       failer
	rules   Rules
	now     mono.Time
	senders []Sender
	segs    *Recovery
	models  []modelSender
	flying  []*modelSegment // by token; nil: not in flight
	free    []Token
	queued  []Token
	list    []Token // the resend list
	popped  []Token
}

func newPair(t failer, rules Rules, segments int, firsts ...seq.Num) *pair {
	t.Helper()
	p := &pair{
		t: t, rules: rules, segs: mustSegments(t, segments, rules),
		senders: make([]Sender, len(firsts)),
		flying:  make([]*modelSegment, segments),
	}
	for i, first := range firsts {
		p.senders[i].Init(uint32(i), first, rules.WindowPackets)
		join(p.segs, &p.senders[i])
		p.models = append(p.models, modelSender{first: first, window: int64(rules.WindowPackets)})
	}
	for i := range segments {
		p.free = append(p.free, Token(i))
	}
	return p
}

// wire converts a number of the model to a number on the wire.
func (m *modelSender) wire(n int64) seq.Num { return m.first + seq.Num(n) }

func (m *modelSender) room() int64 {
	return max(0, min(m.limit, m.oldest+m.window)-m.next)
}

// stay is the back-off, computed by doubling step by step.
func (p *pair) stay(g *modelSegment, limit time.Duration) time.Duration {
	d := p.rules.ResendTimeout
	for range g.resends {
		d = min(2*d, p.rules.ResendTimeoutMax)
	}
	return max(0, min(d, limit))
}

func (p *pair) posted(g *modelSegment, limit time.Duration) {
	g.state, g.popped, g.postedAt = Posted, false, p.now
	g.due = p.now.Add(p.stay(g, limit))
}

// admit sends a packet if there is a segment and the window is open. If there is no open window in
// the model, the sender's window must also be closed.
func (p *pair) admit(i int, queue bool, limit time.Duration) {
	p.t.Helper()
	s, m := &p.senders[i], &p.models[i]
	if m.room() == 0 {
		if !panics(p.t, func() { s.Admit(0) }) {
			p.t.Fatalf("sender %d: packet admitted to a closed window", i)
		}
		return
	}
	if len(p.free) == 0 {
		return
	}
	token := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	if queue {
		p.segs.Queue(token)
		if p.segs.State(token) != Queued {
			p.t.Fatalf("segment %d is %v", token, p.segs.State(token))
		}
	}
	n := s.Admit(token)
	if n != m.wire(m.next) {
		p.t.Fatalf("sender %d: packet %d has number %d, want %d", i, m.next, n, m.wire(m.next))
	}
	postAs(p.segs, p.now, token, s.Number(), n, limit)
	g := &modelSegment{sender: i, n: m.next}
	p.posted(g, limit)
	p.flying[token] = g
	m.inFlight = append(m.inFlight, token)
	m.next++
}

func (p *pair) grant(i int, credit uint16) {
	m := &p.models[i]
	p.senders[i].Grant(credit)
	m.limit = max(m.limit, m.oldest+int64(credit))
}

// landed frees the oldest packet in the model.
func (p *pair) landed(i int) Token {
	m := &p.models[i]
	token := m.inFlight[0]
	m.inFlight = m.inFlight[1:]
	m.oldest++
	p.flying[token] = nil
	p.list = slices.DeleteFunc(p.list, func(t Token) bool { return t == token })
	p.popped = slices.DeleteFunc(p.popped, func(t Token) bool { return t == token })
	p.free = append(p.free, token)
	return token
}

// ack processes an ACK. The acknowledged packet is distance after the oldest packet in flight.
func (p *pair) ack(i int, distance int64, credit uint16, dup bool) {
	p.t.Helper()
	s, m := &p.senders[i], &p.models[i]
	number := m.wire(m.oldest + distance)
	plausible := s.Plausible(number)
	done, verdict, resend := onAck(s, p.now, number, credit, dup, nil)

	inFlight := m.next - m.oldest
	want, wantResend := AckNew, false
	var wantDone []Token
	switch {
	case distance < -1:
		want = AckOld
	case distance >= inFlight:
		want = AckBogus
	default:
		limit := m.oldest + distance + 1 + max(1, int64(credit))
		grew := limit > m.limit
		m.limit = max(m.limit, limit)
		for range distance + 1 {
			wantDone = append(wantDone, p.landed(i))
		}
		if distance == -1 {
			want = AckIdle
			if inFlight > 0 && !grew && !dup {
				want, wantResend = AckDuplicate, p.dupAcked(m.inFlight[0])
			}
		}
	}
	if verdict != want || resend != wantResend || plausible != (want != AckBogus) {
		p.t.Fatalf("sender %d, ACK of oldest%+d, credit %d, dup %v: verdict %d, resend %v, "+
			"plausible %v; want %d, %v", i, distance, credit, dup, verdict, resend, plausible, want,
			wantResend)
	}
	if !slices.Equal(done, wantDone) {
		p.t.Fatalf("sender %d, ACK of oldest%+d: freed %v, want %v", i, distance, done, wantDone)
	}
}

// dupAcked applies a duplicate ACK to the oldest packet.
func (p *pair) dupAcked(token Token) bool {
	g := p.flying[token]
	if g.state != Posted || g.resends > 0 && p.now.Sub(g.postedAt) < p.rules.DupAckHold {
		return false
	}
	p.enlist(token, CauseDupAck)
	return true
}

func (p *pair) enlist(token Token, cause Cause) {
	g := p.flying[token]
	g.state, g.cause, g.popped = Resend, cause, false
	p.list = append(p.list, token)
}

// expire lets time pass, and compares the segments that time out. All segments that are overdue by
// a tick must time out, none too early, and in the order of their deadlines as far as ticks
// distinguish the deadlines.
func (p *pair) expire(d time.Duration) {
	p.t.Helper()
	p.now = p.now.Add(d)
	n := expire(p.segs, p.now)
	last := mono.Time(0)
	for _, token := range p.listed()[len(p.list):] {
		g := p.flying[token]
		if g == nil || g.state != Posted || g.due > p.now {
			p.t.Fatalf("segment %d expired at %d: %+v", token, p.now, g)
		}
		if g.due.Add(tick) < last {
			p.t.Fatalf("segment %d, due at %d, expired after one due at %d", token, g.due, last)
		}
		last = g.due
		p.enlist(token, CauseTimeout)
		n--
	}
	if n != 0 {
		p.t.Fatalf("Expire counted %d more than the list", n)
	}
	for token, g := range p.flying {
		if g != nil && g.state == Posted && g.due.Add(tick) <= p.now {
			p.t.Fatalf("segment %d, due at %d, still waits at %d", token, g.due, p.now)
		}
	}
}

// listed walks the resend list.
func (p *pair) listed() (list []Token) {
	for i := p.segs.head; i != none && len(list) <= len(p.segs.segs); i = p.segs.segs[i].next {
		list = append(list, Token(i))
	}
	return list
}

func (p *pair) pop() {
	p.t.Helper()
	token, cause, ok := p.segs.PopResend()
	if ok != (len(p.list) > 0) {
		p.t.Fatalf("PopResend %v, %d wait", ok, len(p.list))
	}
	if !ok {
		return
	}
	if g := p.flying[token]; token != p.list[0] || cause != g.cause {
		p.t.Fatalf("popped segment %d, cause %d; want %d, %d", token, cause, p.list[0], g.cause)
	}
	p.list = p.list[1:]
	p.popped = append(p.popped, token)
	p.flying[token].popped = true
}

// settle retransmits a popped segment, or puts the segment back.
func (p *pair) settle(index int, again bool, limit time.Duration) {
	if len(p.popped) == 0 {
		return
	}
	index %= len(p.popped)
	token := p.popped[index]
	p.popped = slices.Delete(p.popped, index, index+1)
	g := p.flying[token]
	if !again {
		p.segs.Defer(token)
		p.enlist(token, g.cause)
		return
	}
	repostAs(p.segs, p.now, token, limit)
	g.resends = min(g.resends+1, 255)
	p.posted(g, limit)
}

// refuse makes the peer refuse a packet, given by its number on the wire. The packet may be in
// flight or not.
func (p *pair) refuse(i int, distance int64) {
	p.t.Helper()
	m := &p.models[i]
	token, ok := p.senders[i].Token(m.wire(m.oldest + distance))
	inside := distance >= 0 && distance < m.next-m.oldest
	if ok != inside || ok && token != m.inFlight[distance] {
		p.t.Fatalf("sender %d, number oldest%+d: segment %d %v", i, distance, token, ok)
	}
	if !ok {
		return
	}
	resendNow(p.segs, token)
	if p.flying[token].state == Posted {
		p.enlist(token, CauseRefused)
	}
}

func (p *pair) queue() {
	if len(p.free) > 0 {
		p.segs.Queue(p.free[0])
		p.queued = append(p.queued, p.free[0])
		p.free = p.free[1:]
	}
}

func (p *pair) unqueue() {
	if len(p.queued) > 0 {
		p.segs.Unqueue(p.queued[0])
		p.free = append(p.free, p.queued[0])
		p.queued = p.queued[1:]
	}
}

func (p *pair) abort(i int) {
	p.t.Helper()
	m := &p.models[i]
	var want []Token
	for m.oldest < m.next {
		want = append(want, p.landed(i))
	}
	m.limit = m.next
	if done := p.senders[i].Abort(nil); !slices.Equal(done, want) {
		p.t.Fatalf("sender %d aborted: freed %v, want %v", i, done, want)
	}
}

// check compares all readable state, and calls the package's own checks.
func (p *pair) check() {
	p.t.Helper()
	if err := p.segs.Check(); err != nil {
		p.t.Fatalf("%v", err)
	}
	if got := p.listed(); !slices.Equal(got, p.list) || p.segs.ResendsWaiting() != len(p.list) {
		p.t.Fatalf("resend list %v of %d, want %v", got, p.segs.ResendsWaiting(), p.list)
	}
	if got, want := p.segs.InFlight(), p.inFlight()-len(p.popped); got != want {
		p.t.Fatalf("%d in flight, want %d", got, want)
	}
	earliest := mono.Never
	for i, g := range p.flying {
		if g == nil {
			continue
		}
		token := Token(i)
		owner, n := p.segs.Owner(token)
		if p.segs.State(token) != g.state || p.segs.Resends(token) != g.resends ||
			int(owner) != g.sender || n != p.models[g.sender].wire(g.n) {
			p.t.Fatalf("segment %d: %v, %d resends, number %d of %d; want %+v", token,
				p.segs.State(token), p.segs.Resends(token), n, owner, g)
		}
		if g.state == Posted {
			earliest = earliest.Min(g.due)
		}
	}
	deadline := p.segs.Deadline()
	if deadline > earliest.Add(tick) || deadline == mono.Never && earliest != mono.Never ||
		deadline != mono.Never && earliest == mono.Never {
		p.t.Fatalf("deadline %d, the earliest is due at %d", deadline, earliest)
	}
	for _, token := range p.free {
		if p.segs.State(token) != Free {
			p.t.Fatalf("segment %d is %v, should be free", token, p.segs.State(token))
		}
	}
	for i := range p.senders {
		p.checkSender(&p.senders[i], &p.models[i])
	}
}

// inFlight is the number of packets in all windows.
func (p *pair) inFlight() (n int) {
	for i := range p.models {
		n += len(p.models[i].inFlight)
	}
	return n
}

func (p *pair) checkSender(s *Sender, m *modelSender) {
	p.t.Helper()
	if err := s.Check(); err != nil {
		p.t.Fatalf("%v", err)
	}
	oldest, next := s.Window()
	if oldest != m.wire(m.oldest) || next != m.wire(m.next) || s.InFlight() != int(m.next-m.oldest) {
		p.t.Fatalf("sender %d: window [%d, %d), %d in flight; want [%d, %d)", s.Number(), oldest, next,
			s.InFlight(), m.wire(m.oldest), m.wire(m.next))
	}
	if m.next-m.oldest > m.window || len(m.inFlight) != int(m.next-m.oldest) {
		p.t.Fatalf("model: [%d, %d) with %d packets", m.oldest, m.next, len(m.inFlight))
	}
	if s.Open() != (m.room() > 0) || s.Room() != int(m.room()) {
		p.t.Fatalf("sender %d: open %v, room for %d, want room for %d", s.Number(), s.Open(), s.Room(),
			m.room())
	}
	for i, token := range m.inFlight {
		n := m.oldest + int64(i)
		if got, ok := s.Token(m.wire(n)); !ok || got != token {
			p.t.Fatalf("sender %d: packet %d is segment %d %v, want %d", s.Number(), n, got, ok, token)
		}
	}
}

// end aborts all senders. Every segment that is not queued must then be free.
func (p *pair) end() {
	p.t.Helper()
	for i := range p.senders {
		p.abort(i)
	}
	p.check()
	if len(p.free)+len(p.queued) != len(p.segs.segs) || p.segs.Deadline() != mono.Never {
		p.t.Fatalf("%d free, %d queued of %d, deadline %d", len(p.free), len(p.queued),
			len(p.segs.segs), p.segs.Deadline())
	}
}

// modelReceiver is the receive side as a set of numbers that do not wrap.
type modelReceiver struct {
	first   seq.Num
	window  int64
	here    map[int64]bool
	inOrder int64 // all packets before inOrder have arrived
	due     mono.Time
	unacked int
	fresh   bool
	atOnce  []mono.Time // when duplicates were answered at once, since the first one
}

// copyDue is when the ACK of a duplicate is due. The ACK is due at once, but at most 32 ACKs in 10
// ms are sent only for duplicates. An ACK that is due anyway answers any number of duplicates.
func (m *modelReceiver) copyDue(now mono.Time) mono.Time {
	if m.due <= now {
		return m.due
	}
	if len(m.atOnce) == 0 || now >= m.atOnce[0].Add(10*time.Millisecond) {
		m.atOnce = []mono.Time{now}
		return now
	}
	if len(m.atOnce) < 32 {
		m.atOnce = append(m.atOnce, now)
		return now
	}
	return m.due
}

func (m *modelReceiver) next() int64 {
	for m.here[m.inOrder] {
		m.inOrder++
	}
	return m.inOrder
}

func (m *modelReceiver) verdict(n int64) Verdict {
	switch next := m.next(); {
	case n < next:
		return Below
	case n >= next+m.window:
		return Above
	case m.here[n]:
		return Duplicate
	}
	return Accept
}

// early is the number of packets beyond the first gap.
func (m *modelReceiver) early() int { return len(m.here) - int(m.next()) }
