package reliability

import (
	"math"
	"testing"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// received is a receiver that has accepted the packets at the given distances from first.
func received(t failer, first seq.Num, window int, distances ...int) *Receiver {
	t.Helper()
	rules := quick()
	r := &Receiver{}
	r.Init(first, window)
	for _, d := range distances {
		n := first.Add(uint32(d))
		if v := r.Check(n); v != Accept {
			t.Fatalf("packet %d: verdict %d", d, v)
		}
		r.Accept(0, n, &rules)
		mustBeSound(t, r)
	}
	return r
}

func mustBeSound(t failer, r *Receiver) {
	t.Helper()
	if err := r.CheckState(); err != nil {
		t.Fatalf("%v", err)
	}
}

// TestReceiverCheck lists the verdict for every kind of number. Distances count from Next.
func TestReceiverCheck(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name     string
		window   int
		early    []int // packets received out of order
		distance int64
		want     Verdict
	}{
		{"next", 64, nil, 0, Accept},
		{"next, with a gap behind it", 64, []int{1, 63}, 0, Accept},
		{"in the window", 64, nil, 7, Accept},
		{"in a gap", 64, []int{6, 8}, 7, Accept},
		{"last of the window", 64, nil, 63, Accept},
		{"first beyond", 64, nil, 64, Above},
		{"first beyond, on the place of an early one", 64, []int{1}, 65, Above},
		{"farthest beyond", 64, nil, 1<<31 - 1, Above},
		{"here already", 64, []int{7}, 7, Duplicate},
		{"here already, last of the window", 64, []int{63}, 63, Duplicate},
		{"before", 64, nil, -1, Below},
		{"before, on the place of an early one", 64, []int{63}, -1, Below},
		{"a window before", 64, nil, -64, Below},
		{"farthest before", 64, nil, -1 << 31, Below},
		{"window of one: next", 1, nil, 0, Accept},
		{"window of one: beyond", 1, nil, 1, Above},
		{"window of one: before", 1, nil, -1, Below},
		{"window of two: early", 2, []int{1}, 1, Duplicate},
		{"window of two: beyond", 2, []int{1}, 2, Above},
		{"largest window: last", WindowMax, []int{64, 4000}, WindowMax - 1, Accept},
		{"largest window: beyond", WindowMax, []int{64, 4000}, WindowMax, Above},
		{"largest window: here already", WindowMax, []int{64, 4000}, 4000, Duplicate},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			eachStart(t, func(t *testing.T, first seq.Num) {
				r := received(t, first, c.window, c.early...)
				for range 2 { // Check changes nothing
					if got := r.Check(first + seq.Num(c.distance)); got != c.want {
						t.Errorf("verdict %d, want %d", got, c.want)
					}
				}
				mustBeSound(t, r)
			})
		})
	}
}

// TestReceiverAdvance checks that the window moves past packets that had arrived early, and stops
// at the next gap.
func TestReceiverAdvance(t *testing.T) {
	t.Parallel()
	cases := []struct {
		window int
		take   []int
		next   int
		held   int
	}{
		{8, nil, 0, 0},
		{8, []int{0, 1, 2}, 3, 0},
		{8, []int{1, 2}, 0, 2},
		{8, []int{2, 1, 0}, 3, 0},
		{8, []int{1, 3, 4, 0}, 2, 2},
		{8, []int{1, 3, 4, 0, 2}, 5, 0},
		{8, []int{7, 6, 5, 4, 3, 2, 1}, 0, 7},
		{8, []int{7, 6, 5, 4, 3, 2, 1, 0}, 8, 0},
		{8, []int{1, 0, 9, 8, 3, 2, 4}, 5, 2},
		{128, []int{127, 64, 63, 0}, 1, 3},
	}
	for _, c := range cases {
		eachStart(t, func(t *testing.T, first seq.Num) {
			r := received(t, first, c.window, c.take...)
			if r.Next() != first.Add(uint32(c.next)) || r.Held() != c.held {
				t.Errorf("%v: next %d, held %d; want %d, %d", c.take, r.Next()-first, r.Held(), c.next, c.held)
			}
			ack, _, dup := r.TakeAck(NewCredits(8))
			if ack != first.Add(uint32(c.next))-1 || dup != (len(c.take) == 0) {
				t.Errorf("%v: ACK of %d, dup %v", c.take, int32(ack-first), dup)
			}
		})
	}
}

// TestAckDue lists when an ACK is due after each of the arrivals, which are a microsecond apart.
// The delay of the rules is 50 us.
func TestAckDue(t *testing.T) {
	t.Parallel()
	const us = mono.Time(1000)
	cases := []struct {
		name   string
		every  int
		credit int // the peer's credits; 0: none granted yet
		calls  string
		want   []mono.Time // after each call
	}{
		// The letters mean: a for accepted in order, e for early, g for behind a gap of one, d for
		// repeated, k for AskAck after 20 us, and t for TakeAck.
		{"delayed", 64, 4096, "aaa", []mono.Time{50 * us, 50 * us, 50 * us}},
		{"early packets wait as well", 64, 4096, "eea", []mono.Time{50 * us, 50 * us, 50 * us}},
		{"duplicate", 64, 4096, "d", []mono.Time{0}},
		{"duplicate after accept", 64, 4096, "ad", []mono.Time{50 * us, us}},
		{"accept after duplicate", 64, 4096, "da", []mono.Time{0, 0}},
		{"every fourth", 4, 4096, "aaaa", []mono.Time{50 * us, 50 * us, 50 * us, 3 * us}},
		{
			"every fourth, early ones count", 4, 4096, "aeea",
			[]mono.Time{50 * us, 50 * us, 50 * us, 3 * us},
		},
		{"due stays due", 2, 4096, "aaa", []mono.Time{50 * us, us, us}},
		{"each", 1, 4096, "ata", []mono.Time{0, mono.Never, 2 * us}},
		{
			"counted since the last ACK", 3, 4096, "aataaa",
			[]mono.Time{50 * us, 50 * us, mono.Never, 53 * us, 53 * us, 5 * us},
		},
		{"a quarter of the credits", 64, 12, "aaa", []mono.Time{50 * us, 50 * us, 2 * us}},
		{"a quarter of few credits", 64, 4, "aa", []mono.Time{50 * us, us}},
		{"one credit", 64, 1, "a", []mono.Time{0}},
		{
			"one credit after the other", 64, 1, "atata",
			[]mono.Time{0, mono.Never, 2 * us, mono.Never, 4 * us},
		},
		{"one credit, and more than it", 64, 1, "aa", []mono.Time{0, 0}},
		{"two credits", 64, 2, "aa", []mono.Time{50 * us, us}},
		{"the last credit fills a gap", 64, 2, "gta", []mono.Time{50 * us, mono.Never, 2 * us}},
		{"a gap, one credit left", 64, 3, "gta", []mono.Time{50 * us, mono.Never, 52 * us}},
		{"the last credit leaves a gap", 64, 2, "g", []mono.Time{50 * us}},
		{"a quarter of a newcomer's credits", 64, 4096, "aaaaaaaa", []mono.Time{
			50 * us, 50 * us, 50 * us, 50 * us, 50 * us, 50 * us, 50 * us, 7 * us,
		}},
		{
			"a quarter comes before the largest number", math.MaxInt32, 12, "aaa",
			[]mono.Time{50 * us, 50 * us, 2 * us},
		},
		{"no credits yet", 64, 0, "a", []mono.Time{0}},
		{"no credits yet, a gap", 64, 0, "e", []mono.Time{0}},
		{"taken", 64, 4096, "at", []mono.Time{50 * us, mono.Never}},
		{"asked for", 64, 4096, "k", []mono.Time{20 * us}},
		{"asked for while one waits", 64, 4096, "ak", []mono.Time{50 * us, 21 * us}},
		{"asked for after a duplicate", 64, 4096, "dk", []mono.Time{0, 0}},
		{"delayed after asked for", 64, 4096, "ka", []mono.Time{20 * us, 20 * us}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rules := quick()
			rules.AckEvery = c.every
			pool := NewCredits(max(1, 4*c.credit)) // the first grant is a quarter
			pool.Join()
			var r Receiver
			r.Init(1<<32-2, WindowMax)
			if c.credit > 0 {
				r.Grant(pool)
			}
			if r.AckDue() != mono.Never {
				t.Fatal("an ACK is due before anything came")
			}
			ahead := uint32(2000)
			for i, call := range c.calls {
				now := mono.Time(i) * us
				switch call {
				case 'a':
					r.Accept(now, r.Next(), &rules)
				case 'e':
					r.Accept(now, r.Next().Add(ahead), &rules)
					ahead++
				case 'g':
					r.Accept(now, r.Next()+1, &rules)
				case 'd':
					r.Repeated(now)
				case 'k':
					r.AskAck(now, 20*time.Microsecond)
				case 't':
					r.TakeAck(pool)
				}
				if r.AckDue() != c.want[i] {
					t.Fatalf("call %d: due at %d, want %d", i, r.AckDue(), c.want[i])
				}
			}
		})
	}
}

// TestAckDup checks that an ACK is marked as an answer to duplicates exactly if no new packet has
// arrived since the previous ACK.
func TestAckDup(t *testing.T) {
	t.Parallel()
	for calls, want := range map[string]bool{
		"": true, "a": false, "e": false, "d": true, "k": true, "dd": true, "ad": false, "da": false,
		"ed": false, "kd": true, "ka": false, "at": true, "atd": true, "atda": false, "etdk": true,
	} {
		rules := quick()
		pool := NewCredits(100)
		pool.Join()
		var r Receiver
		r.Init(9, 64)
		for _, call := range calls {
			switch call {
			case 'a':
				r.Accept(0, r.Next(), &rules)
			case 'e':
				r.Accept(0, r.Next()+5, &rules)
			case 'd':
				r.Repeated(0)
			case 'k':
				r.AskAck(0, 0)
			case 't':
				r.TakeAck(pool)
			}
		}
		if _, _, dup := r.TakeAck(pool); dup != want {
			t.Errorf("after %q dup is %v", calls, dup)
		}
	}
}

// TestRefusedIsNotAcked checks a packet that Check permitted but the caller did not accept. Neither
// that packet nor later packets are acknowledged, and the packet counts as new when it arrives
// again.
func TestRefusedIsNotAcked(t *testing.T) {
	t.Parallel()
	eachStart(t, func(t *testing.T, first seq.Num) {
		r := received(t, first, 64, 0, 1)
		refused := first + 2
		for range 3 {
			if v := r.Check(refused); v != Accept {
				t.Fatalf("verdict %d", v)
			}
		}
		rules := quick()
		r.Accept(0, first+3, &rules)
		if ack, _, _ := r.TakeAck(NewCredits(8)); ack != first+1 {
			t.Errorf("ACK of %d covers what was refused", int32(ack-first))
		}
		if v := r.Check(refused); v != Accept {
			t.Errorf("verdict %d after the ACK", v)
		}
	})
}

// TestReceiverCheckState breaks the window in every way that CheckState looks for.
func TestReceiverCheckState(t *testing.T) {
	t.Parallel()
	breaks := map[string]func(r *Receiver){
		"one too many counted": func(r *Receiver) { r.held++ },
		"one too few counted":  func(r *Receiver) { r.held-- },
		"held and missing":     func(r *Receiver) { r.next += 2 },
		"all of the window":    func(r *Receiver) { r.rare.outOfOrder[0], r.held = 1<<8-1, 8 },
		"a stray bit":          func(r *Receiver) { r.rare.outOfOrder[0] |= 1 << 40 },
	}
	for name, breakIt := range breaks {
		r := received(t, 0, 8, 2, 3)
		breakIt(r)
		if r.CheckState() == nil {
			t.Errorf("%s: CheckState found nothing", name)
		}
	}
	one := received(t, 0, 1, 0)
	one.rare, one.held = &rare{outOfOrder: []uint64{1}}, 1
	if one.CheckState() == nil {
		t.Error("a window of one holds a packet, CheckState found nothing")
	}
}

// TestAskAckOf checks requested ACKs. The ACK is due with the packet that completes the request, or
// at once if the packet has arrived. The ACK is not due if it was already sent, and numbers beyond
// the window are ignored.
func TestAskAckOf(t *testing.T) {
	var r Receiver
	rules := quick()
	c := NewCredits(1024)
	c.Join()
	r.Init(100, 64)
	r.Grant(c)
	const now = mono.Time(1000)
	late := now.Add(rules.AckDelay)
	due := func(what string, want mono.Time) {
		t.Helper()
		if got := r.AckDue(); got != want {
			t.Errorf("%s: due at %d, want %d", what, got, want)
		}
	}
	r.AskAckOf(now, 102)
	due("nothing is here", mono.Never)
	r.Accept(now, 100, &rules)
	due("the first of three", late)
	r.Accept(now, 102, &rules)
	due("the last of three", late)
	r.Accept(now, 101, &rules)
	due("all three", now)
	r.TakeAck(c)
	r.AskAckOf(now, 102)
	due("it has left", mono.Never)
	r.Accept(now, 103, &rules)
	due("one more", late)
	r.AskAckOf(now, 103)
	due("which is here", now)
	r.TakeAck(c)
	r.AskAckOf(now, 104+64)
	for n := range seq.Num(4) {
		r.Accept(now, 104+n, &rules)
	}
	due("beyond the window", late)
}

// TestCopiesAnswered checks that duplicates are answered at once, but only up to a limit, because
// an attacker who repeats one packet could otherwise cause an ACK for each copy.
func TestCopiesAnswered(t *testing.T) {
	t.Parallel()
	const every, copies = 10 * time.Microsecond, 5000
	credits, now, acks := NewCredits(8), mono.Time(0), 0
	credits.Join()
	var r Receiver
	r.Init(100, WindowMax)
	for range copies {
		now = now.Add(every)
		r.Repeated(now)
		if r.AckDue() <= now {
			acks++
			r.TakeAck(credits)
		}
	}
	most := answersMax * (int(copies*every/answersEvery) + 1)
	if acks < answersMax || acks > most {
		t.Errorf("%d copies are answered by %d ACKs, at most %d", copies, acks, most)
	}
}
