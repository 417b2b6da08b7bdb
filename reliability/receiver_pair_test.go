package reliability

import (
	"testing"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// receiverPair applies the same calls to a Receiver with its Credits and to the model of a
// receiver, and compares every result.
type receiverPair struct {
	t      failer
	rules  Rules
	now    mono.Time
	model  modelReceiver
	real   Receiver
	pool   *Credits
	earned earned

	credits, limit int64 // the last grant, and the first number beyond the grant
}

func newReceiverPair(t failer, rules Rules, first seq.Num, capacity int) *receiverPair {
	p := &receiverPair{t: t, rules: rules, pool: NewCredits(capacity)}
	p.model = modelReceiver{
		first: first, window: int64(rules.WindowPackets), here: map[int64]bool{}, due: mono.Never,
	}
	p.real.Init(first, rules.WindowPackets)
	p.pool.Join()
	return p
}

// arrive delivers packet n, which the higher layer accepts or refuses.
func (p *receiverPair) arrive(n int64, refuse bool) {
	p.t.Helper()
	m, number := &p.model, p.model.first+seq.Num(n)
	got, want := p.real.Check(number), m.verdict(n)
	if got != want {
		p.t.Fatalf("packet %d (next %d): verdict %d, want %d", n, m.next(), got, want)
	}
	switch got {
	case Accept:
		if refuse {
			return
		}
		p.real.Accept(p.now, number, &p.rules)
		m.here[n], m.fresh = true, true
		m.unacked++
		m.due = m.due.Min(p.now.Add(p.rules.AckDelay))
		exhausted := m.next() >= p.limit
		if exhausted || m.unacked >= min(p.rules.AckEvery, max(2, int(p.credits/4))) {
			m.due = m.due.Min(p.now)
		}
	case Duplicate, Below:
		p.real.Repeated(p.now)
		m.due = m.copyDue(p.now)
	}
}

// ask makes an ACK due.
func (p *receiverPair) ask(d time.Duration) {
	p.real.AskAck(p.now, d)
	p.model.due = p.model.due.Min(p.now.Add(d))
}

// take takes the ACK.
func (p *receiverPair) take() {
	p.t.Helper()
	m := &p.model
	ack, credit, dup := p.real.TakeAck(p.pool)
	next := m.next()
	if ack != m.first+seq.Num(next-1) || dup == m.fresh {
		p.t.Fatalf("ACK of %d, dup %v; want %d, %v", ack, dup, next-1, !m.fresh)
	}
	most := p.earned.grant(next, m.window)
	most = min(most, p.earned.free(int64(p.pool.Capacity()), 1))
	want := max(1, most, p.limit-next)
	if int64(credit) != want || p.pool.Granted() != int(credit) || p.real.Charged() != int(credit) {
		p.t.Fatalf("credit %d, booked %d, want %d", credit, p.pool.Granted(), want)
	}
	p.limit, p.credits = next+want, want
	p.earned.given(next, want)
	m.due, m.fresh, m.unacked = mono.Never, false, 0
}

func (p *receiverPair) check() {
	p.t.Helper()
	m := &p.model
	if err := p.real.CheckState(); err != nil {
		p.t.Fatalf("%v", err)
	}
	if err := p.pool.Check(); err != nil {
		p.t.Fatalf("%v", err)
	}
	if p.real.Next() != m.first+seq.Num(m.next()) || p.real.Held() != m.early() {
		p.t.Fatalf("next %d, held %d; want %d, %d", p.real.Next()-m.first, p.real.Held(), m.next(),
			m.early())
	}
	if p.real.AckDue() != m.due {
		p.t.Fatalf("ACK due at %d, want %d", p.real.AckDue(), m.due)
	}
}

// end makes the peer leave.
func (p *receiverPair) end() {
	p.t.Helper()
	p.real.Leave(p.pool)
	p.real.TakeAck(p.pool)
	if p.pool.Granted() != 0 {
		p.t.Fatalf("%d granted to nobody", p.pool.Granted())
	}
	if err := p.real.CheckState(); err != nil {
		p.t.Fatalf("%v", err)
	}
}

// FuzzReceiver lets the fuzzer choose the arriving packets, and compares the receiver with the
// model. The first four bytes are the size of the window, the capacity, and the first sequence
// numbers. Each further call has an opcode byte and an argument byte.
func FuzzReceiver(f *testing.F) {
	f.Add([]byte{3, 40, 0, 2, 0, 9, 5, 0, 1, 5, 1, 4, 5, 0, 0, 3, 4, 60, 5, 0})
	f.Add([]byte{5, 200, 128, 3, 0, 60, 2, 2, 3, 7, 5, 0, 0, 60, 5, 0, 6, 9, 5, 0})
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) < 4 {
			return
		}
		rules := quick()
		rules.WindowPackets = 1 << (program[0] % 8)
		rules.AckEvery = 1 + int(program[0]>>3)
		first := seq.Num(uint32(program[2])<<24 - uint32(program[3]))
		p := newReceiverPair(t, rules, first, 1+int(program[1]))
		program = program[4:]
		for calls := 0; len(program) >= 2 && calls < 500; calls++ {
			p.call(program[0]%7, program[1])
			p.check()
			program = program[2:]
		}
		p.end()
	})
}

// call is one step of a program.
func (p *receiverPair) call(op, arg byte) {
	next := p.model.next()
	switch op {
	case 0:
		for range 1 + arg&63 {
			p.arrive(p.model.next(), arg&64 != 0)
		}
	case 1:
		p.arrive(next+int64(arg&15)-3, arg&64 != 0)
	case 2:
		p.arrive(next+p.model.window+int64(arg&7)-4, arg&64 != 0)
	case 3:
		far := int64(1)<<31 - 1 - int64(arg&3)
		if arg&4 == 0 {
			far = -far - 1
		}
		p.arrive(next+far, false)
	case 4:
		p.now = p.now.Add(time.Duration(arg) * time.Microsecond)
	case 5:
		p.take()
	default:
		p.ask(time.Duration(arg) * time.Microsecond)
	}
}
