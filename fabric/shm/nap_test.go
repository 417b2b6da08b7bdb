//go:build linux

package shm

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/fabric"
)

// nappers are two players that have inserted each other and have connected. Each player naps for at
// most most.
func nappers(t *testing.T, most time.Duration) (a, b *player, toA, toB fabric.Addr) {
	t.Helper()
	a, b, toB = sleepers(t)
	a.next[b.id] = 0
	toA, err := b.dom.Insert(a.ep.Name())
	if err != nil {
		t.Fatal(err)
	}
	firstDatagram(t, a, b, toB)
	firstDatagram(t, b, a, toA)
	for _, p := range []*player{a, b} {
		p.dom.loop.tend() // the other player's wake-up packet
		p.dom.napper.pays = true
		ends(t, waiting(p, time.Microsecond), "its time is over")
		if p.dom.napper.off {
			t.Skip("needs futex_waitv (Linux 5.16)")
		}
		p.dom.napper.most, p.dom.napper.pays = most, true
	}
	return a, b, toA, toB
}

// waiting starts a Wait, and returns a channel for its result.
func waiting(p *player, timeout time.Duration) chan error {
	ended := make(chan error, 1)
	go func() { ended <- p.dom.Wait(timeout) }()
	return ended
}

// napping waits until a Wait has set the sleep flags of a nap.
func napping(t *testing.T, p *player) {
	t.Helper()
	await(t, "somebody naps", func() bool { return p.dom.napper.bell.Load() == bellListens })
}

var errLate = errors.New("a datagram has not come")

// play is one side of a ping-pong in which each Wait is a nap that only a wake-up ends.
func play(p *player, from uint64, addr fabric.Addr, first bool, rounds uint64, over *atomic.Bool,
) error {
	for n := uint64(1); n <= rounds; n++ {
		if first {
			if err := p.send(addr, n, 64); err != nil {
				return err
			}
		}
		for p.next[from] <= n {
			came, err := p.poll()
			if err == nil && came == 0 {
				err = p.dom.Wait(-1)
			}
			if err != nil {
				return err
			}
			if over.Load() {
				return errLate
			}
		}
		if !first {
			if err := p.send(addr, n, 64); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestNap checks that no wake-up is lost in a ping-pong with unlimited naps.
func TestNap(t *testing.T) {
	a, b, toA, toB := nappers(t, time.Hour)
	const rounds = 3000
	var over atomic.Bool
	ended := make(chan error, 2)
	go func() { ended <- play(a, b.id, toB, true, rounds, &over) }()
	go func() { ended <- play(b, a.id, toA, false, rounds, &over) }()
	for range 2 {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Errorf("a wake-up was lost, of %d", rounds)
			over.Store(true)
			a.dom.Wake()
			b.dom.Wake()
			<-ended
		}
	}
	if a.dom.napper.ends < rounds/10 || b.dom.napper.ends < rounds/10 {
		t.Errorf("%d and %d naps were ended, in %d rounds", a.dom.napper.ends, b.dom.napper.ends, rounds)
	}
}

// TestNapEnds checks all events that end a nap. These are a waiting datagram, Wake, an earlier
// Wake, the timeout, and room for a waiting send.
func TestNapEnds(t *testing.T) {
	a, b, toA, to := nappers(t, time.Hour)
	if err := b.send(toA, 1, 64); err != nil {
		t.Fatal(err)
	}
	ends(t, waiting(a, -1), "a datagram waits")
	if came, err := a.poll(); came != 1 || err != nil {
		t.Fatalf("%d came, %v", came, err)
	}
	ended := waiting(a, -1)
	napping(t, a)
	stays(t, ended, "nothing has happened")
	for range 3 {
		a.dom.Wake()
		ends(t, ended, "it was woken")
		a.dom.Wake()
		ends(t, waiting(a, -1), "it was woken before")
		begin := time.Now()
		ends(t, waiting(a, 3*time.Millisecond), "its time is over")
		if took := time.Since(begin); took < 3*time.Millisecond {
			t.Errorf("a Wait for 3 ms took %v", took)
		}
		a.dom.napper.pays = true
		ended = waiting(a, -1)
	}
	a.dom.Wake()
	ends(t, ended, "it was woken")

	last := uint64(0)
	for a.ep.unsent == 0 {
		last++
		if err := a.send(to, last, 64); err != nil {
			t.Fatal(err)
		}
	}
	ended = waiting(a, -1)
	napping(t, a)
	stays(t, ended, "there is no room yet")
	for b.next[a.id] < last {
		if _, err := b.poll(); err != nil {
			t.Fatal(err)
		}
	}
	ends(t, ended, "there is room again")
}

// TestNapOfMore checks that a nap ends soon, and that the Wait then handles events of the
// descriptors, which are a new peer and a vanished peer.
func TestNapOfMore(t *testing.T) {
	a, b, _, _ := nappers(t, napMost)
	c := open(t)
	to, err := c.dom.Insert(a.ep.Name())
	if err != nil {
		t.Fatal(err)
	}
	a.next[c.id] = 0
	ended := waiting(a, -1)
	if err := c.send(to, 0, 64); err != nil {
		t.Fatal(err)
	}
	ends(t, ended, "a peer has come")
	a.dom.napper.pays = true
	await(t, "the datagram", func() bool {
		came, err := a.poll()
		if err != nil {
			t.Fatal(err)
		}
		return came == 1
	})
	a.dom.loop.tend()
	ended = waiting(a, -1)
	if err := b.dom.Close(); err != nil {
		t.Fatal(err)
	}
	ends(t, ended, "a peer has gone")
}

// TestNapPays checks that a domain that is not woken soon stops napping, until a wake-up comes soon
// again.
func TestNapPays(t *testing.T) {
	a, b, toA, _ := nappers(t, napMost)
	ends(t, waiting(a, 4*napMost), "its time is over")
	if a.dom.napper.pays {
		t.Error("a nap in vain has paid")
	}
	if err := b.send(toA, 1, 64); err != nil {
		t.Fatal(err)
	}
	a.dom.napper.most = time.Hour
	ends(t, waiting(a, -1), "a datagram waits")
	if !a.dom.napper.pays {
		t.Error("a sleep that ended at once was long")
	}
}

// TestNapManyRings checks that with too many rings, and with none, a Wait sleeps on the
// descriptors.
func TestNapManyRings(t *testing.T) {
	a := open(t)
	if n := a.dom.napOn(); n >= 0 {
		t.Errorf("naps on %d words without a peer", n)
	}
	for i := range napWords + 1 {
		p := open(t)
		a.next[p.id] = 0
		to, err := p.dom.Insert(a.ep.Name())
		if err != nil {
			t.Fatal(err)
		}
		firstDatagram(t, p, a, to)
		want := i + 2
		if i == napWords {
			want = -1
		}
		if n := a.dom.napOn(); n != want {
			t.Errorf("naps on %d words with %d peers, want %d", n, i+1, want)
		}
	}
}

// TestNapWords checks that a domain is woken whatever value a peer writes to the sleep flag, and
// that no other domain is woken.
func TestNapWords(t *testing.T) {
	a, b, _, to := nappers(t, time.Hour)
	const tries = 5
	sent := uint64(0)
	// say makes b sleep, changes the sleep flag, sends a datagram to b, and reports whether b still
	// sleeps. In all cases b has received the datagram afterwards.
	say := func(word uint32) (sleepsOn bool) {
		b.dom.napper.pays = false
		ended := waiting(b, -1)
		says := b.ep.rings[0].ring.sleeps()
		await(t, "b sleeps", func() bool {
			if len(ended) > 0 { // ended by a Wake that was no longer necessary
				<-ended
				b.dom.napper.pays = false
				ended = waiting(b, -1)
			}
			return atomic.LoadUint32(says) != awake
		})
		atomic.StoreUint32(says, word)
		// The flag is wrong, and b has mostly checked its rings for the last time before sleeping.
		if word == onFutex {
			time.Sleep(100 * time.Millisecond)
		}
		sent++
		if err := a.send(to, sent, 64); err != nil {
			t.Fatal(err)
		}
		if word == onFutex {
			time.Sleep(5 * time.Millisecond)
			if sleepsOn = len(ended) == 0; sleepsOn {
				b.dom.Wake()
			}
		}
		ends(t, ended, "a datagram has arrived")
		await(t, "the datagram", func() bool {
			came, err := b.poll()
			if err != nil {
				t.Fatal(err)
			}
			return came == 1
		})
		return sleepsOn
	}
	for _, word := range []uint32{onSocket, onFutex, 3, 1 << 31, 1<<32 - 1} {
		try := 1
		for !say(word) && word == onFutex {
			// On a busy machine the datagram may arrive before b checks its rings.
			if try++; try > tries {
				t.Fatal("Wait has ended each time, although nobody has knocked")
			}
		}
	}
}

// TestNapAllocs checks that a nap allocates no memory.
func TestNapAllocs(t *testing.T) {
	a, _, _, _ := nappers(t, napMost)
	if n := testing.AllocsPerRun(100, func() {
		a.dom.napper.pays = true
		if err := a.dom.Wait(10 * time.Microsecond); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%.1f allocations", n)
	}
}

// TestDisarmHearsWake checks a Wake while another thread sleeps for the domain. DisarmReady handles
// the Wake, and naps are possible again.
func TestDisarmHearsWake(t *testing.T) {
	a, _, _, _ := nappers(t, time.Second)
	if a.dom.ArmReady() == 0 {
		t.Fatal("there is something to be polled")
	}
	a.dom.Wake()
	a.dom.DisarmReady()
	if bell := a.dom.napper.bell.Load(); bell != bellSilent {
		t.Errorf("the bell of naps is in state %d, want %d", bell, bellSilent)
	}
}
