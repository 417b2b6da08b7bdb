package fabrictest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"gobtl/fabric"
)

// testMalformedNames inserts malformed names. A provider is allowed to accept random bytes that
// happen to be a valid name. No name may crash the provider, and the domain must still work after
// the test.
func testMalformedNames(t *testing.T, f *Fixture) {
	a, b := newPort(t, f), newPort(t, f)
	name := b.ep.Name()
	for _, tc := range []struct {
		what string
		name []byte
	}{
		{"nil", nil},
		{"empty", []byte{}},
		{"one byte", name[:1]},
		{"one byte short", name[:len(name)-1]},
		{"one byte long", append(bytes.Clone(name), 0)},
		{"twice", append(bytes.Clone(name), name...)},
		{"zeros", make([]byte, len(name))},
		{"ones", bytes.Repeat([]byte{0xff}, len(name))},
		{"longest and one", make([]byte, fabric.MaxNameBytes+1)},
		{"64 KiB", make([]byte, 1<<16)},
	} {
		if _, err := a.dom.Insert(tc.name); !errors.Is(err, fabric.ErrBadName) {
			t.Errorf("Insert of a name of %d bytes (%s): %v, want ErrBadName", len(tc.name), tc.what, err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		random := make([]byte, rng.IntN(fabric.MaxNameBytes+2))
		for i := range random {
			random[i] = byte(rng.Uint32())
		}
		addr, err := a.dom.Insert(random)
		switch {
		case err == nil && len(random) != len(name):
			t.Fatalf("Insert took a name of %d bytes; its own have %d", len(random), len(name))
		case err == nil:
			if err := a.dom.Remove(addr); err != nil {
				t.Fatalf("Remove of a random name that was inserted: %v", err)
			}
		case !errors.Is(err, fabric.ErrBadName):
			t.Fatalf("Insert(%x): %v, want ErrBadName", random, err)
		}
	}
	b.stock(1)
	a.send(a.insert(b), []byte("fine"))
	b.expect([]byte("fine"))
}

func testInsertIsCounted(t *testing.T, f *Fixture) {
	a, b, c := newPort(t, f), newPort(t, f), newPort(t, f)
	toB := a.insert(b)
	toC := a.insert(c)
	if toB == toC {
		t.Fatalf("two peers have the Addr %d", toB)
	}
	for range 2 {
		if again := a.insert(b); again != toB {
			t.Fatalf("Insert of the same name gave Addr %d, then %d", toB, again)
		}
	}
	for left := 2; left > 0; left-- {
		if err := a.dom.Remove(toB); err != nil {
			t.Fatalf("Remove with %d inserts left: %v", left+1, err)
		}
		b.stock(1)
		want := pattern(uint64(left), 40)
		a.send(toB, want)
		b.expect(want)
	}
	if err := a.dom.Remove(toB); err != nil {
		t.Fatalf("the last Remove: %v", err)
	}
	if err := a.dom.Remove(toB); err == nil {
		t.Error("Remove of an address that is no longer inserted succeeds")
	}
	if err := a.dom.Remove(fabric.AddrUnknown); err == nil {
		t.Error("Remove of AddrUnknown succeeds")
	}
	c.stock(1)
	a.send(toC, []byte("the other peer"))
	c.expect([]byte("the other peer"))
}

// testRemoveAndInsertAgain removes and inserts the address of a peer between sends, like the test
// "av_xfer" in fabtests (libfabric's test suite).
func testRemoveAndInsertAgain(t *testing.T, f *Fixture) {
	a, b := newPort(t, f), newPort(t, f)
	for i := range uint64(10) {
		to := a.insert(b)
		b.stock(1)
		want := pattern(i, 64)
		a.send(to, want)
		b.expect(want)
		a.settle()
		if err := a.dom.Remove(to); err != nil {
			t.Fatalf("Remove, round %d: %v", i, err)
		}
	}
}

// testSource checks Completion.From of endpoints with Caps.Source and of endpoints without
// Caps.Source.
func testSource(t *testing.T, f *Fixture) {
	for _, ask := range []bool{false, true} {
		cfg := f.Endpoint
		cfg.Source = ask
		rx := newParty(t, f, fabric.DomainConfig{}).open(cfg)
		one, two := newPort(t, f), newPort(t, f)
		rx.stock(16)
		exchange := func(step string, fromOne, fromTwo fabric.Addr) {
			t.Helper()
			for _, tc := range []struct {
				tx   *port
				want fabric.Addr
			}{{one, fromOne}, {two, fromTwo}} {
				if !rx.caps.Source {
					tc.want = fabric.AddrUnknown
				}
				tc.tx.send(tc.tx.insert(rx), []byte(step))
				if got := rx.collect(1)[0].from; got != tc.want {
					t.Errorf("Source asked %v, Caps.Source %v, %s: From is %d, want %d", ask,
						rx.caps.Source, step, got, tc.want)
				}
			}
		}
		exchange("before Insert", fabric.AddrUnknown, fabric.AddrUnknown)
		addrOne := rx.insert(one)
		exchange("one inserted", addrOne, fabric.AddrUnknown)
		addrTwo := rx.insert(two)
		exchange("both inserted", addrOne, addrTwo)
		if err := rx.dom.Remove(addrOne); err != nil {
			t.Fatal(err)
		}
		exchange("one removed", fabric.AddrUnknown, addrTwo)
		addrOne = rx.insert(one)
		exchange("one inserted again", addrOne, addrTwo)
	}
}
