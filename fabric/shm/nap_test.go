//go:build linux

package shm

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/fabric"
)

// nappers are two players that know each other, have met, and nap for so long.
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
		p.dom.loop.tend() // the other's knock
		p.dom.napper.pays = true
		ends(t, waiting(p, time.Microsecond), "its time is over")
		if p.dom.napper.off {
			t.Skip("needs futex_waitv (Linux 5.16)")
		}
		p.dom.napper.most, p.dom.napper.pays = most, true
	}
	return a, b, toA, toB
}

// waiting starts a Wait and returns where it tells of its end.
func waiting(p *player, timeout time.Duration) chan error {
	ended := make(chan error, 1)
	go func() { ended <- p.dom.Wait(timeout) }()
	return ended
}

// napping waits until a Wait has said in its rings that it naps.
func napping(t *testing.T, p *player) {
	t.Helper()
	await(t, "somebody naps", func() bool { return p.dom.napper.bell.Load() == bellListens })
}

var errLate = errors.New("a datagram has not come")

// play is one side of a ping-pong in which each Wait is a nap that nothing but its end ends.
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

// TestNap: in a ping-pong whose sides nap for as long as it takes, no wake-up is lost.
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

// TestNapEnds: by what waits already, by Wake, by one before it too, by its time, and by room for
// what waits.
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

// TestNapOfMore: a nap ends soon, and the Wait goes on by what the descriptors tell: here of a peer
// that comes, and of one that has gone.
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

// TestNapPays: who is not woken soon naps no more, until it is.
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

// TestNapManyRings: with more rings than a nap is on, and with none, a Wait is on the descriptors.
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

// TestNapWords: whatever a peer writes where it says that it sleeps, it is woken, and no other.
func TestNapWords(t *testing.T) {
	a, b, _, to := nappers(t, time.Hour)
	const tries = 5
	sent := uint64(0)
	// say has b sleep and its word changed, sends it a datagram, and says whether it sleeps on all the
	// same; with a knock or without, it has got the datagram then.
	say := func(word uint32) (sleepsOn bool) {
		b.dom.napper.pays = false
		ended := waiting(b, -1)
		says := b.ep.rings[0].ring.sleeps()
		await(t, "b sleeps", func() bool {
			if len(ended) > 0 { // by a Wake that was not needed any more
				<-ended
				b.dom.napper.pays = false
				ended = waiting(b, -1)
			}
			return atomic.LoadUint32(says) != awake
		})
		atomic.StoreUint32(says, word)
		if word == onFutex { // It lies, and has looked for the last time before it sleeps, mostly.
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
			// On a machine that is busy the datagram may be there before it looks.
			if try++; try > tries {
				t.Fatal("Wait has ended each time, although nobody has knocked")
			}
		}
	}
}

// TestNapAllocs: a nap allocates nothing.
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

// A Wake that comes while others sleep for the domain is heard by Disarm: naps are possible again.
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
