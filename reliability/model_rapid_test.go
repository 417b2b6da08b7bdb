package reliability

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// drawFirst draws a first sequence number, mostly one from which the window soon crosses a wrap.
func drawFirst(t *rapid.T) seq.Num {
	wrap := rapid.SampledFrom([]uint32{0, 1 << 16, 1 << 31}).Draw(t, "wrap")
	before := rapid.Uint32Range(0, 40).Draw(t, "before")
	anywhere := rapid.Uint32().Draw(t, "anywhere")
	if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
		return seq.Num(anywhere)
	}
	return seq.Num(wrap - before)
}

func drawRules(t *rapid.T) Rules {
	r := quick()
	r.WindowPackets = 1 << rapid.IntRange(0, 6).Draw(t, "windowShift")
	r.ResendTimeoutMax = r.ResendTimeout * time.Duration(rapid.IntRange(1, 20).Draw(t, "timeouts"))
	r.DupAckHold = time.Duration(rapid.IntRange(0, 30).Draw(t, "holdMs")) * time.Millisecond
	r.AckEvery = rapid.IntRange(1, 12).Draw(t, "ackEvery")
	return r
}

// drawDistance draws the distance of a number on the wire from the oldest packet in flight. The
// number is in the window, at the window's edges, or anywhere.
func drawDistance(t *rapid.T, inFlight int64) int64 {
	if inFlight > 0 && rapid.IntRange(0, 2).Draw(t, "inside") > 0 {
		return rapid.Int64Range(-1, inFlight-1).Draw(t, "distance")
	}
	edge := rapid.SampledFrom([]int64{-1, inFlight, -1 << 31 >> 1, 1 << 31 >> 1}).Draw(t, "edge")
	return edge + rapid.Int64Range(-2, 2).Draw(t, "off")
}

// TestSenderModel runs senders that share a set of segments through random calls, and compares the
// senders with the model.
func TestSenderModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		firsts := make([]seq.Num, rapid.IntRange(1, 3).Draw(t, "senders"))
		for i := range firsts {
			firsts[i] = drawFirst(t)
		}
		p := newPair(t, drawRules(t), rapid.IntRange(1, 100).Draw(t, "segments"), firsts...)
		for i := range firsts {
			p.grant(i, rapid.Uint16Range(0, 80).Draw(t, "helloCredit"))
		}
		sender := func(t *rapid.T) (int, int64) {
			i := rapid.IntRange(0, len(firsts)-1).Draw(t, "sender")
			return i, p.models[i].next - p.models[i].oldest
		}
		limit := rapid.SampledFrom([]time.Duration{
			forever, forever, forever, 15 * time.Millisecond, 0, -1,
		})
		admit := func(t *rapid.T) {
			i, _ := sender(t)
			for range rapid.IntRange(1, 9).Draw(t, "packets") {
				p.admit(i, rapid.Bool().Draw(t, "queue"), limit.Draw(t, "limit"))
			}
		}
		pop := func(t *rapid.T) {
			for range rapid.IntRange(1, 5).Draw(t, "pops") {
				p.pop()
			}
		}
		settle := func(t *rapid.T) {
			again := rapid.IntRange(0, 3).Draw(t, "again") > 0
			p.settle(rapid.IntRange(0, 99).Draw(t, "index"), again, limit.Draw(t, "limit"))
		}
		t.Repeat(map[string]func(*rapid.T){
			"admit": admit, "admitMore": admit,
			"pop": pop, "settle": settle, "settleMore": settle,
			"ack": func(t *rapid.T) {
				i, inFlight := sender(t)
				credit := rapid.SampledFrom([]uint16{0, 1, 2, 5, 16, 65, 65535}).Draw(t, "credit")
				p.ack(i, drawDistance(t, inFlight), credit, rapid.Bool().Draw(t, "dup"))
			},
			"ackAgain": func(t *rapid.T) {
				i, _ := sender(t)
				p.ack(i, -1, 0, false)
			},
			"grant": func(t *rapid.T) {
				i, _ := sender(t)
				p.grant(i, rapid.Uint16Range(0, 80).Draw(t, "credit"))
			},
			"expire": func(t *rapid.T) {
				p.expire(time.Duration(rapid.IntRange(0, 30_000).Draw(t, "us")) * time.Microsecond)
			},
			"toDeadline": func(*rapid.T) {
				if d := p.segs.Deadline(); d != mono.Never {
					p.expire(max(0, d.Sub(p.now)))
				}
			},
			"refuse": func(t *rapid.T) {
				i, inFlight := sender(t)
				p.refuse(i, drawDistance(t, inFlight))
			},
			// These duplicate ACKs follow a retransmission closely, before and after the hold.
			"resendAndAck": func(t *rapid.T) {
				i, _ := sender(t)
				for len(p.list) > 0 {
					p.pop()
				}
				for len(p.popped) > 0 {
					p.settle(0, true, forever)
				}
				off := time.Duration(rapid.IntRange(-1, 1).Draw(t, "off"))
				p.expire(max(0, p.rules.DupAckHold*time.Duration(rapid.IntRange(0, 1).Draw(t, "held"))+off))
				p.ack(i, -1, 0, false)
			},
			"queue":   func(*rapid.T) { p.queue() },
			"unqueue": func(*rapid.T) { p.unqueue() },
			"abort": func(t *rapid.T) {
				if i, _ := sender(t); rapid.IntRange(0, 4).Draw(t, "abort") == 0 {
					p.abort(i)
				}
			},
			"": func(*rapid.T) { p.check() },
		})
		p.end()
	})
}

// TestReceiverModel compares the receive window with a set of numbers.
func TestReceiverModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newReceiverPair(t, drawRules(t), drawFirst(t), rapid.IntRange(1, 100).Draw(t, "capacity"))
		arrive := func(t *rapid.T, n int64) {
			p.arrive(n, rapid.IntRange(0, 4).Draw(t, "refuse") == 0)
		}
		t.Repeat(map[string]func(*rapid.T){
			"next": func(t *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(t, "packets") {
					arrive(t, p.model.next())
				}
			},
			"near": func(t *rapid.T) {
				arrive(t, p.model.next()+rapid.Int64Range(-3, 9).Draw(t, "distance"))
			},
			"edge": func(t *rapid.T) {
				edge := p.model.next() + p.model.window
				arrive(t, edge+rapid.Int64Range(-3, 2).Draw(t, "distance"))
			},
			"far": func(t *rapid.T) {
				far := rapid.Int64Range(1<<31-4, 1<<31-1).Draw(t, "distance")
				arrive(t, p.model.next()+far)
				arrive(t, p.model.next()-far-1)
			},
			"wait": func(t *rapid.T) {
				p.now = p.now.Add(time.Duration(rapid.IntRange(0, 60_000).Draw(t, "ns")))
			},
			"ask": func(t *rapid.T) {
				p.ask(time.Duration(rapid.IntRange(0, 60_000).Draw(t, "ns")))
			},
			"take": func(*rapid.T) { p.take() },
			"":     func(*rapid.T) { p.check() },
		})
		p.end()
	})
}
