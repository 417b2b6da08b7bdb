package reliability

import (
	"testing"
	"time"
)

// TestNoMemory checks packets that the peer refused for lack of memory. The packets take no room in
// the congestion window, and no bytes. The packets are retransmitted one at a time at growing
// intervals, and all of them after one was accepted.
func TestNoMemory(t *testing.T) {
	const rtt, large, sizeBytes = time.Millisecond, 10, 1400
	a, next := newWarm(t, rtt)
	window := a.policy().cong.window
	a.send(large, Data)
	a.snd.Carry(large * sizeBytes)
	a.after(rtt)
	for i := range large {
		a.snd.NoMemory(a.now, Token(next+i), sizeBytes, time.Hour)
		a.snd.NoMemory(a.now, Token(next+i), sizeBytes, time.Hour) // a refusal of another copy
		a.check()
	}
	if n, room := a.policy().onTheWay(&a.snd), a.policy().room(&a.snd); n != 0 || room != window {
		t.Errorf("%d packets on their way, room for %d of %d", n, room, window)
	}
	if a.snd.bytes != 0 || a.snd.InFlightBytes() != large*sizeBytes || !a.snd.NeedsMemory() {
		t.Errorf("%d bytes count, %d are in flight, memory is lacking: %t", a.snd.bytes,
			a.snd.InFlightBytes(), a.snd.NeedsMemory())
	}
	asked, began := 0, a.now
	var early []int
	for a.now.Sub(began) < 200*time.Millisecond { // small packets are sent in the meantime
		a.send(1, Command)
		early = append(early, a.sent-1)
		a.after(rtt).expire()
		again, causes := a.again()
		for i, token := range again {
			if causes[i] != CauseMemory || token != Token(next) {
				t.Fatalf("packet %d is sent again after %v, cause %d", token, a.now.Sub(began), causes[i])
			}
			asked++
			a.snd.NoMemory(a.now.Add(rtt/2), token, sizeBytes, time.Hour)
		}
		a.ack(next, a.sent-1, early...)
	}
	if asked < 8 || asked > 16 {
		t.Errorf("asked %d times in 200 ms", asked)
	}
	if c := &a.policy().cong; c.lost != 0 || c.window < window {
		t.Errorf("%d lost, window %d, before %d", c.lost, c.window, window)
	}
	for range 100 {
		a.after(rtt).expire()
		if again, _ := a.again(); len(again) > 0 {
			a.after(rtt).ack(next+1, next, early...) // the packet was accepted
			break
		}
	}
	if again, _ := a.again(); len(again) != large-1 {
		t.Errorf("then %d of %d come again", len(again), large-1)
	}
	a.after(rtt).ack(a.sent, next+large-1)
	a.snd.Carry(-large * sizeBytes)
	if a.snd.NeedsMemory() || a.snd.InFlight() != 0 || a.snd.bytes != 0 {
		t.Errorf("at the end %d packets of %d bytes are in flight", a.snd.InFlight(), a.snd.bytes)
	}
	a.check()
}

// TestOnlyRefusedInFlight checks that no ACK is due while only refused packets are in flight. A
// packet sent later is awaited as usual.
func TestOnlyRefusedInFlight(t *testing.T) {
	const rtt = time.Millisecond
	a, next := newWarm(t, rtt)
	a.send(2, Data)
	a.snd.Carry(2 * 1400)
	a.after(rtt)
	for i := range 2 {
		a.snd.NoMemory(a.now, Token(next+i), 1400, time.Hour)
	}
	window := a.policy().cong.window
	for range 100 { // each retransmission is refused
		a.now = max(a.now, a.segs.Deadline())
		a.expire()
		for again, causes := a.again(); len(again) > 0; again, causes = a.again() {
			if again[0] != Token(next) || causes[0] != CauseMemory {
				t.Fatalf("packet %d, cause %d", again[0], causes[0])
			}
			a.after(rtt)
			a.snd.NoMemory(a.now, again[0], 1400, time.Hour)
		}
	}
	if p := a.policy(); p.backoff != 0 || p.cong.window != window {
		t.Errorf("%d time-outs, window %d, before %d", p.backoff, p.cong.window, window)
	}
	a.send(1, Command) // this packet is lost
	at := a.now
	for range 3 {
		a.now = max(a.now, a.segs.Deadline())
		a.expire()
		if again, causes := a.again(); len(again) > 0 && causes[0] == CauseProbe {
			if took := a.now.Sub(at); again[0] != Token(next+2) || took > 10*rtt {
				t.Errorf("packet %d after %v", again[0], took)
			}
			return
		}
	}
	t.Error("nobody waits for the answer to what was sent since")
}

// TestNoMemoryForAnOlderOne checks a peer without selective ACKs. The oldest refused packet is
// retransmitted even if a later packet was refused and retransmitted before. The peer may have
// accepted the later packet, but acknowledges it only after the older packets.
func TestNoMemoryForAnOlderOne(t *testing.T) {
	const rtt, sizeBytes = time.Millisecond, 1400
	a, next := newWarm(t, rtt)
	a.policy().selective = false
	a.send(3, Data)
	a.snd.Carry(3 * sizeBytes)
	a.after(rtt)
	a.snd.NoMemory(a.now, Token(next+1), sizeBytes, time.Hour)
	asked := func() Token {
		for range 100 {
			a.now = max(a.now, a.segs.Deadline())
			a.expire()
			again, causes := a.again()
			for i, token := range again {
				if causes[i] == CauseMemory {
					return token
				}
			}
		}
		return noToken
	}
	if got := asked(); got != Token(next+1) {
		t.Fatalf("%d is asked for", got)
	}
	a.after(rtt)
	a.snd.NoMemory(a.now, Token(next), sizeBytes, time.Hour)
	if got := asked(); got != Token(next) {
		t.Fatalf("then %d is asked for", got)
	}
	a.after(rtt).plain(next + 3)
	a.snd.Carry(-3 * sizeBytes)
	if a.snd.NeedsMemory() || a.snd.InFlight() != 0 || a.snd.bytes != 0 {
		t.Errorf("at the end %d packets of %d bytes are in flight", a.snd.InFlight(), a.snd.bytes)
	}
	a.check()
}

// TestRefusedTakesNoCredit checks that refused packets take no credits, however often the packets
// arrive. No credit is lost or gained when the packets are accepted.
func TestRefusedTakesNoCredit(t *testing.T) {
	rules := Adaptive()
	m := &creditModel{pool: NewCredits(100)}
	p := m.join(1<<32-10, 4096)
	p.rcv.Selective = true
	first := p.rcv.Next()
	// beyond is the number of packets that may be sent in addition to those that have arrived or
	// were refused.
	beyond := func(refused int) int { return int(p.rcv.Grant(m.pool)) - p.rcv.Held() - refused }
	had := beyond(0)
	refused := had
	for range 3 {
		for i := range refused {
			p.rcv.Refused(first.Add(uint32(i)))
		}
		if got := beyond(refused); got < had {
			t.Fatalf("%d credits with %d packets refused, before %d", got, refused, had)
		}
	}
	for i := range 500 { // small packets after the refused ones
		p.rcv.Accept(0, first.Add(uint32(refused+i)), &rules)
		if got := beyond(refused); got < had {
			t.Fatalf("%d credits behind %d small packets", got, i)
		}
	}
	had = beyond(refused)
	for i := range refused {
		p.rcv.Accept(0, first.Add(uint32(i)), &rules)
		if err := p.rcv.CheckState(); err != nil {
			t.Fatal(err)
		}
		if got := beyond(refused - i - 1); got < had {
			t.Fatalf("%d credits with %d of them taken, before %d", got, i+1, had)
		}
	}
	if p.rcv.refused != 0 || p.rcv.Held() != 0 {
		t.Errorf("%d refused, %d held at the end", p.rcv.refused, p.rcv.Held())
	}
	plain := m.join(5, 64) // its limit shows that there is a gap
	plain.rcv.Refused(5)
	if plain.rcv.ahead() != 0 {
		t.Error("a peer without selective acknowledgements is told of a refused packet as if it had come")
	}
}

// TestNoMemoryAskedInTime checks that a refused packet is retransmitted within the limit, however
// long a time-out would be. A longer wait would delay the detection of a dead peer.
func TestNoMemoryAskedInTime(t *testing.T) {
	const rtt, limit, sizeBytes = time.Second, 50 * time.Millisecond, 1400
	a, next := newWarm(t, rtt)
	a.send(1, Data)
	a.snd.Carry(sizeBytes)
	a.after(rtt)
	a.snd.NoMemory(a.now, Token(next), sizeBytes, limit)
	a.after(limit).expire()
	if again, _ := a.again(); len(again) != 1 || again[0] != Token(next) {
		t.Errorf("asked for after %v: %v", limit, again)
	}
}
