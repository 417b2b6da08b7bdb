package meet

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"gobtl/frag"
)

const ms = Time(time.Millisecond)

func newTest() *Handshake { return New(ms, Nonces{11, 12}) }

func retry(hs *Handshake, p frag.Probe, now Time) (ok, hurry bool) {
	return hs.OnRetry(&frag.Retry{
		Nonce: hs.Nonces[p], Probe: p, Addr: []byte{byte(p), 1}, Cookie: []byte{byte(p), 2},
	}, now)
}

// A side shows cookies when it has one for each channel, and hurries once it has.
func TestRetry(t *testing.T) {
	hs := newTest()
	if ok, _ := hs.OnRetry(&frag.Retry{Nonce: 12, Probe: frag.ProbeCommand}, ms); ok {
		t.Error("the nonce of the other channel")
	}
	if ok, hurry := retry(hs, frag.ProbeData, 2*ms); !ok || hurry {
		t.Errorf("the first cookie: %v, hurries %v", ok, hurry)
	}
	if hs.Asks(frag.ProbeData) || !hs.Asks(frag.ProbeCommand) {
		t.Error("a Hello that lacks a cookie is of no use by the channel that has one")
	}
	var hello frag.Hello
	if hs.Show(&hello); hello.CommandCookie != nil || hello.DataCookie != nil {
		t.Errorf("shows only one cookie: %+v", hello)
	}
	if ok, hurry := retry(hs, frag.ProbeCommand, 3*ms); !ok || !hurry {
		t.Errorf("the second cookie: %v, hurries %v", ok, hurry)
	}
	hs.Show(&hello)
	if !bytes.Equal(hello.DataCookie, []byte{1, 2}) || !bytes.Equal(hello.DataName, []byte{1, 1}) ||
		!bytes.Equal(hello.CommandCookie, []byte{0, 2}) {
		t.Errorf("shows %+v", hello)
	}
	if ok, hurry := retry(hs, frag.ProbeCommand, 4*ms); !ok || hurry {
		t.Errorf("the same cookie: %v, hurries %v", ok, hurry)
	}
	if !hs.HeardBy(frag.ProbeCommand) || newTest().HeardBy(frag.ProbeCommand) {
		t.Error("a Retry says that a channel leads there")
	}
}

// A connection works when both channels are proven; on the side that was called when the peer knows
// that, too.
func TestWorks(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		hs := newTest()
		works := func() bool { return hs.Proven == frag.ProvenAll && (hs.wanted || hs.ready) }
		if wanted {
			hs.Want(5, []byte("data"), ms)
		}
		hs.Proven |= frag.ProbeCommand.Bit()
		if works() || hs.ReachesPeer() {
			t.Error("by one channel, to nobody")
		}
		hs.Bound = true
		hs.Proven |= frag.ProbeData.Bit()
		if works() != wanted || hs.confirmed || !hs.ReachesPeer() {
			t.Errorf("wanted %v: works %v, confirmed %v", wanted, works(), hs.confirmed)
		}
		hs.OnProvenHello(&frag.Hello{})
		if works() != wanted || !hs.confirmed || !hs.unheard {
			t.Error("the peer knows this side's tag, and not that all is proven")
		}
		hs.OnProvenHello(&frag.Hello{Proven: frag.ProvenAll})
		if !works() || hs.Check() != nil {
			t.Errorf("the peer knows that all is proven: %v", hs.Check())
		}
		if hs.Bound, hs.Proven = true, 0; works() || !hs.Bound {
			t.Error("another end has proven nothing")
		}
	}
}

// The answer to a later copy of the Hello that says that all is proven tells that the first one did
// not come; the answer to the first one tells whether the peer was established then.
func TestUnheard(t *testing.T) {
	for _, c := range []struct {
		name   string
		nonce  uint64
		proven uint8
		want   bool
	}{
		{"first, established", 21, frag.ProvenAll, false},
		{"first, not established", 21, 0, true},
		{"a copy", 22, frag.ProvenAll, true},
		{"another", 23, 0, false},
	} {
		hs := newTest()
		hs.BeginConfirm(21)
		hs.Nonces[frag.ProbeCommand] = 22
		hs.OnHelloAck(&frag.Hello{Nonce: c.nonce, Proven: c.proven})
		if hs.unheard != c.want || hs.confirmed != (c.proven == frag.ProvenAll) {
			t.Errorf("%s: unheard %v, confirmed %v", c.name, hs.unheard, hs.confirmed)
		}
	}
}

// Hellos go out before their time a few times, once in a pass, while an answer lacks.
func TestHurry(t *testing.T) {
	hs := newTest()
	sent := 0
	for i := range Time(20) {
		for range 3 {
			if hs.MayHurry(i + 1) {
				sent++
			}
		}
	}
	if sent != hurriesMax {
		t.Errorf("hurried %d times", sent)
	}
	hs = newTest()
	hs.Proven = frag.ProvenAll
	if hs.MayHurry(1) {
		t.Error("hurries without need")
	}
	if !hs.MayAsk(ms) || hs.MayAsk(2*ms) || !hs.MayAsk(ms+Time(HelloIntervalMin)) {
		t.Error("asks out of its turn at other times than once a round")
	}
}

// The rounds of Hellos become twice as long each time, up to a bound.
func TestRounds(t *testing.T) {
	hs, want := newTest(), HelloIntervalMin
	for range 10 {
		if d := hs.NextRound(); d != want {
			t.Errorf("a round of %v, want %v", d, want)
		}
		if want = min(2*want, HelloIntervalMax); hs.Interval != want {
			t.Errorf("the next one of %v, want %v", hs.Interval, want)
		}
	}
	hs.BeginConfirm(1)
	if hs.NextRound() != HelloIntervalMin {
		t.Error("what is new is not said soon")
	}
}

// A contest waits for the round trip that the end which was told the tag may take, and not at all
// if that is over.
func TestContest(t *testing.T) {
	hs := newTest()
	hs.Want(0, nil, 1000*ms)
	retry(hs, frag.ProbeCommand, 31*ms) // a trip of 30 ms
	retry(hs, frag.ProbeCommand, 90*ms) // which a later one does not change
	hs.Offer(7, 100*ms)
	hs.Offer(7, 120*ms) // was told before
	if after, waits := hs.Contest(130*ms, 0); waits {
		t.Errorf("waits for %v, though the round trip is over", after)
	}
	after, waits := hs.Contest(110*ms, 5*time.Millisecond)
	if !waits || after != 25*time.Millisecond || !hs.contested || hs.Bound {
		t.Errorf("waits for %v: %v", after, waits)
	}
	if hs.Bound = true; hs.contested && !hs.Bound {
		t.Error("the end that was told the tag has proven itself")
	}
	again := hs.Again(200*ms, Nonces{})
	if again.contested || again.Left(200*ms) != 800*time.Millisecond {
		t.Errorf("begins again with %+v", again)
	}
}

// A Reject counts if it answers a Hello, and if the peer that has answered one is silent.
func TestReject(t *testing.T) {
	hs := newTest()
	if !hs.OnReject(12, 0) || hs.OnReject(13, time.Hour) {
		t.Error("a Reject is known by its nonce")
	}
	hs.Bound = true
	if hs.OnReject(12, HelloIntervalMax-1) || !hs.OnReject(12, HelloIntervalMax) {
		t.Error("a peer that was heard refuses nothing")
	}
	if _, ok := hs.Later(); ok {
		t.Error("put off by nobody")
	}
	hs.PutOff(0)
	hs.PutOff(9)
	if code, ok := hs.Later(); !ok || code != 9 {
		t.Errorf("put off with %d: %v", code, ok)
	}
}

// Whatever happens in whatever order leaves a state that fits together.
func TestCheck(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		hs, now := newTest(), ms
		for range 100 {
			now += Time(rnd.IntN(int(50 * time.Millisecond)))
			p := frag.Probe(rnd.IntN(frag.ProbeCount))
			hello := frag.Hello{Probe: p, Proven: uint8(rnd.IntN(4)), Nonce: rnd.Uint64N(30)}
			switch rnd.IntN(12) {
			case 0:
				retry(hs, p, now)
			case 1:
				hs.Offer(rnd.Uint64N(3)+1, now)
			case 2:
				hs.Bound = true
			case 3:
				hs.Bound, hs.Proven = true, 0
			case 4:
				hs.Proven |= p.Bit()
			case 5:
				hs.OnHelloAck(&hello)
			case 6:
				hs.OnProvenHello(&hello)
			case 7:
				hs.MayHurry(now)
			case 8:
				hs.NextRound()
			case 9:
				hs.Contest(now, 0)
			case 10:
				hs.BeginConfirm(rnd.Uint64N(30))
			default:
				hs = hs.Again(now, Nonces{rnd.Uint64N(30), rnd.Uint64N(30)})
			}
			if err := hs.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
	for name, breaks := range map[string]func(hs *Handshake){
		"interval": func(hs *Handshake) { hs.Interval = 0 },
		"proven":   func(hs *Handshake) { hs.Proven = 8 },
		"offered":  func(hs *Handshake) { hs.offeredAt = 1 },
		"goal":     func(hs *Handshake) { hs.until = 1 },
	} {
		hs := newTest()
		if breaks(hs); hs.Check() == nil {
			t.Errorf("%s: nothing is found", name)
		}
	}
}
