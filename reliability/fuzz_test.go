package reliability

import (
	"testing"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// FuzzSender lets the fuzzer choose the calls of two senders that share a set of segments, and
// compares the senders with the model. The first four bytes are the size of the window, the hold,
// and the first sequence numbers. Each further call has an opcode byte and an argument byte.
func FuzzSender(f *testing.F) {
	f.Add([]byte{3, 2, 0, 2, opGrant, 20, opAdmit, 5, opAck, 2, opAck, 1, opPop, 0, opSettle, 2})
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) < 4 {
			return
		}
		rules := quick()
		rules.WindowPackets = 1 << (program[0] % 6)
		rules.DupAckHold = time.Duration(program[1]) * time.Millisecond
		first := seq.Num(uint32(program[2])<<24 - uint32(program[3]))
		p := newPair(t, rules, 40, first, first+1<<31)
		program = program[4:]
		for calls := 0; len(program) >= 2 && calls < 500; calls++ {
			p.call(program[0], program[1])
			p.check()
			program = program[2:]
		}
		p.end()
	})
}

// These are the opcodes of FuzzSender. The top bit of an opcode byte chooses the sender.
const (
	opGrant byte = iota
	opAdmit
	opAck
	opAckDup
	opAckFar
	opExpire
	opDeadline
	opPop
	opSettle
	opDefer
	opRefuse
	opQueue
	opUnqueue
	opAbort
	opCount
)

// call is one step of a program.
func (p *pair) call(op, arg byte) {
	i := int(op >> 7)
	inFlight := p.models[i].next - p.models[i].oldest
	// The distances go from two before the window to one beyond the window, which are all the
	// interesting numbers of an ACK.
	near := int64(arg&63)%(inFlight+4) - 2
	switch op & 0x7f % opCount {
	case opGrant:
		p.grant(i, uint16(arg))
	case opAdmit:
		for range arg & 15 {
			p.admit(i, arg&16 != 0, forever)
		}
		if arg&32 != 0 {
			p.admit(i, false, time.Duration(arg>>6)*time.Millisecond-1)
		}
	case opAck:
		p.ack(i, near, uint16(arg>>6)*12, false)
	case opAckDup:
		p.ack(i, near, uint16(arg>>6)*12, true)
	case opAckFar:
		p.ack(i, int64(int8(arg))<<23, 65535, arg&1 != 0)
	case opExpire:
		p.expire(time.Duration(arg) * 250 * time.Microsecond)
	case opDeadline:
		if d := p.segs.Deadline(); d != mono.Never {
			p.expire(max(0, d.Sub(p.now)))
		}
	case opPop:
		for range 1 + arg&7 {
			p.pop()
		}
	case opSettle:
		p.settle(int(arg), true, forever)
	case opDefer:
		p.settle(int(arg), false, 0)
	case opRefuse:
		p.refuse(i, near)
	case opQueue:
		p.queue()
	case opUnqueue:
		p.unqueue()
	case opAbort:
		p.abort(i)
	}
}
