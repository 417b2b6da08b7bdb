package frag

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"gobtl/internal/seq"
	"gobtl/internal/testenv"
)

// partOf returns the payload of a Part that PutPart has written and Decode has read.
func partOf(t testing.TB, h *Header, datagram []byte, offset, sliceBytes int) []byte {
	t.Helper()
	b := make([]byte, PartHeaderBytes+sliceBytes)
	n := PutPart(b, h, offset, len(datagram), sliceBytes)
	copy(b[n:], datagram[offset:][:sliceBytes])
	want := *h
	payload, err := Decode(b, h)
	if err != nil || *h != want {
		t.Fatalf("Part of %d bytes at %d of %d: %+v, want %+v, %v", sliceBytes, offset, len(datagram), h,
			want, err)
	}
	return payload
}

// TestPartsModel sends datagrams in Parts of changing sizes, out of order, with duplicates and
// losses. Each datagram must be complete and unaltered after all its bytes have arrived.
func TestPartsModel(t *testing.T) {
	seed := testenv.Seed(t, rand.Uint64())
	rng := rand.New(rand.NewPCG(seed, 1))
	pool := NewPartPool(1 << 20)
	var a Parts
	a.Init(pool)
	for round := range 20 {
		first := seq.Num(rng.Uint32())
		want := make([][]byte, 1+rng.IntN(partsMax))
		covered := make([][]bool, len(want))
		for i := range want {
			want[i] = make([]byte, PartGrain+1+rng.IntN(9000))
			for j := range want[i] {
				want[i][j] = byte(rng.Uint32())
			}
			covered[i] = make([]bool, len(want[i]))
		}
		for left := len(want); left > 0; {
			i := rng.IntN(len(want))
			if want[i] == nil {
				continue
			}
			d := want[i]
			offset := rng.IntN((len(d)+PartGrain-1)/PartGrain) * PartGrain
			n := min(len(d)-offset, (1+rng.IntN(40))*PartGrain)
			if n == len(d) {
				continue
			}
			h := Header{Conn: 1, Seq: first.Add(uint32(i))}
			got, err := a.Add(&h, partOf(t, &h, d, offset, n), rng.IntN(2) == 0, 0, nil)
			if err != nil {
				t.Fatalf("seed %d, round %d: %v", seed, round, err)
			}
			whole := true
			for j := range covered[i] {
				covered[i][j] = covered[i][j] || j >= offset && j < offset+n
				whole = whole && covered[i][j]
			}
			if whole != (got != nil) || whole && !bytes.Equal(got, d) {
				t.Fatalf("seed %d, round %d: whole %v, %d of %d bytes", seed, round, whole, len(got),
					len(d))
			}
			if n, err := a.Check(); err != nil || n != pool.Bytes() {
				t.Fatalf("seed %d, round %d: %d bytes, %d counted, %v", seed, round, n, pool.Bytes(), err)
			}
			if whole {
				want[i] = nil
				left--
			}
		}
	}
	if a.Active() != 0 || pool.Bytes() != 0 {
		t.Errorf("%d datagrams, %d bytes are left", a.Active(), pool.Bytes())
	}
}

// TestPartsBounds fills the table and the pool. Datagrams with lower sequence numbers replace those
// with higher numbers, and the next datagram in order is accepted however full the pool is.
func TestPartsBounds(t *testing.T) {
	pool := NewPartPool(100_000)
	var a, other Parts
	a.Init(pool)
	other.Init(pool)
	d := make([]byte, 9000)
	add := func(p *Parts, n seq.Num, inOrder bool) error {
		h := Header{Conn: 1, Seq: n}
		_, err := p.Add(&h, partOf(t, &h, d, 0, 1024), inOrder, 0, nil)
		return err
	}
	for i := range partsMax {
		if err := add(&a, seq.Num(100+i), false); err != nil {
			t.Fatal(err)
		}
	}
	if err := add(&a, 200, false); !errors.Is(err, ErrParts) || a.Active() != partsMax {
		t.Errorf("one too many: %v, %d", err, a.Active())
	}
	if err := add(&a, 99, false); err != nil || a.Active() != partsMax || a.find(131) != nil {
		t.Errorf("one before all: %v, %d", err, a.Active())
	}
	for i := range partsMax {
		h := Header{Conn: 1, Seq: seq.Num(i)}
		if _, err := other.Add(&h, partOf(t, &h, d, 0, 8960), false, 0, nil); err != nil && i < 5 {
			t.Fatal(err)
		}
	}
	if pool.Bytes() > 100_000 {
		t.Errorf("%d bytes kept", pool.Bytes())
	}
	var third Parts
	third.Init(pool)
	h := Header{Conn: 1, Seq: 7}
	payload := partOf(t, &h, d, 0, 8960)
	before := pool.Bytes()
	if _, err := other.Add(&h, payload, false, 0, nil); !errors.Is(err, ErrParts) ||
		pool.Bytes() != before {
		t.Errorf("a full pool: %v, %d bytes kept of %d", err, pool.Bytes(), before)
	}
	if _, err := third.Add(&h, payload, true, 0, nil); err != nil {
		t.Errorf("a full pool, in order: %v", err)
	}
	a.Sweep(func(n seq.Num) bool { return n == 99 })
	if a.Active() != 1 || a.find(99) == nil {
		t.Errorf("%d datagrams after a sweep", a.Active())
	}
	a.Drop()
	other.Drop()
	third.Drop()
	if pool.Bytes() != 0 {
		t.Errorf("%d bytes are left", pool.Bytes())
	}
}

// partsOf makes peers of a pool, each with a number of datagrams of 9000 bytes in Parts. Of each
// datagram, all bytes but the last 40 arrive. If the argument "next" is true, the first datagram of
// each peer is the next in sequence.
func partsOf(t *testing.T, pool *PartPool, peers, each int, next bool) []*Parts {
	t.Helper()
	all := make([]*Parts, peers)
	d := make([]byte, 9000)
	for i := range all {
		all[i] = new(Parts)
		all[i].Init(pool)
		for n := range each {
			h := Header{Conn: 1, Seq: seq.Num(n)}
			_, err := all[i].Add(&h, partOf(t, &h, d, 0, 8960), next && n == 0, 0, nil)
			if err != nil && !errors.Is(err, ErrParts) {
				t.Fatal(err)
			}
		}
	}
	return all
}

// TestPartsOfOthers fills the pool, and adds the Parts of a peer with few Parts. The peers with the
// most bytes lose datagrams for this peer, but never the datagram that is their next in sequence.
func TestPartsOfOthers(t *testing.T) {
	const most = 200_000
	for name, c := range map[string]struct {
		peers, each int
		next        bool
		gets        int // datagrams for which there is memory
	}{
		"one peer with many":             {1, partsMax, true, 4},
		"several peers with many":        {4, partsMax, true, 4},
		"a later datagram of each peer":  {30, 1, false, 1},
		"the next datagram of each peer": {30, 1, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pool := NewPartPool(most)
			all := partsOf(t, pool, c.peers, c.each, c.next)
			if pool.Bytes() < most-8960 {
				t.Fatalf("%d bytes are kept: the test shows nothing", pool.Bytes())
			}
			var a Parts
			a.Init(pool)
			d := bytes.Repeat([]byte{7}, 9000)
			for n := range max(c.gets, 1) {
				h := Header{Conn: 1, Seq: seq.Num(10 + n)}
				got, err := a.Add(&h, partOf(t, &h, d, 0, 4480), false, 0, nil)
				if (err == nil) != (n < c.gets) || err != nil && !errors.Is(err, ErrParts) || got != nil {
					t.Fatalf("datagram %d: %d bytes, %v", n, len(got), err)
				}
			}
			for n := range c.gets {
				h := Header{Conn: 1, Seq: seq.Num(10 + n)}
				got, err := a.Add(&h, partOf(t, &h, d, 4480, 4520), false, 0, nil)
				if err != nil || !bytes.Equal(got, d) {
					t.Fatalf("the rest of datagram %d: %d bytes, %v", n, len(got), err)
				}
			}
			kept := 0
			for i, p := range append(all, &a) {
				n, err := p.Check()
				if err != nil || c.next && p != &a && p.find(0) == nil {
					t.Errorf("peer %d has %d bytes: %v", i, n, err)
				}
				kept += n
			}
			if kept != pool.Bytes() || c.gets > 0 && kept > most {
				t.Errorf("%d bytes are kept, %d counted, at most %d", kept, pool.Bytes(), most)
			}
		})
	}
}

// TestPartsShares lets one peer after the other begin all datagrams that it may. No peer ends with
// less than a quarter of an equal share, however early or late it comes.
func TestPartsShares(t *testing.T) {
	const most, peers = 1 << 20, 10
	pool := NewPartPool(most)
	all := partsOf(t, pool, peers, partsMax, true)
	for i, p := range all {
		if n, err := p.Check(); err != nil || n < most/peers/4 || n > 4*most/peers {
			t.Errorf("peer %d of %d has %d bytes of %d: %v", i, peers, n, pool.Bytes(), err)
		}
		p.Drop()
	}
	if pool.Bytes() != 0 || pool.above(0) != nil {
		t.Errorf("%d bytes are left, or a peer has a rank", pool.Bytes())
	}
}

// TestPartsRanks fills a pool with one datagram of each of two peers. The datagram that is the next
// in sequence stays, and so does a datagram that is smaller than what another peer adds.
func TestPartsRanks(t *testing.T) {
	pool := NewPartPool(27_000)
	next := partsOf(t, pool, 1, 1, true)[0]
	later := partsOf(t, pool, 1, 2, true)[0]
	d := make([]byte, 18_000)
	h := Header{Conn: 1, Seq: 0}
	if got, err := later.Add(&h, partOf(t, &h, d[:9000], 8960, 40), true, 0, nil); err != nil ||
		len(got) != 9000 {
		t.Fatal(len(got), err)
	}
	add := func(bytes int) error {
		var a Parts
		a.Init(pool)
		h := Header{Conn: 1, Seq: 9}
		_, err := a.Add(&h, partOf(t, &h, d, 0, bytes), false, 0, nil)
		return err
	}
	if err := add(16384); !errors.Is(err, ErrParts) || later.Active() != 1 {
		t.Errorf("more bytes than each of the others has: %v, %d", err, later.Active())
	}
	if err := add(8128); err != nil || later.Active() != 1 {
		t.Errorf("a pool that is not full: %v, %d", err, later.Active())
	}
	if err := add(4096); err != nil || later.Active() != 0 || next.Active() != 1 {
		t.Errorf("fewer bytes: %v, %d, %d", err, later.Active(), next.Active())
	}
}

// TestPartsExpire discards the datagrams whose first slice came at a time or earlier. Later slices
// of such a datagram do not prolong its time.
func TestPartsExpire(t *testing.T) {
	pool := NewPartPool(1 << 20)
	var a Parts
	a.Init(pool)
	d := make([]byte, 4000)
	add := func(n seq.Num, offset int, now int64) {
		h := Header{Conn: 1, Seq: n}
		if _, err := a.Add(&h, partOf(t, &h, d, offset, 1024), false, now, nil); err != nil {
			t.Fatal(err)
		}
	}
	add(1, 0, 10)
	add(2, 0, 20)
	add(3, 0, 30)
	add(1, 1024, 30)
	a.Expire(20)
	if a.find(1) != nil || a.find(2) != nil || a.find(3) == nil || pool.Bytes() != 1024 {
		t.Errorf("%d datagrams and %d bytes are left", a.Active(), pool.Bytes())
	}
}

// TestPartsReplaced sends another datagram under the same sequence number. Nothing of the first
// datagram may remain.
func TestPartsReplaced(t *testing.T) {
	var a Parts
	a.Init(NewPartPool(1 << 20))
	old, now := bytes.Repeat([]byte{1}, 2000), bytes.Repeat([]byte{2}, 1500)
	h := Header{Conn: 1, Seq: 5}
	if _, err := a.Add(&h, partOf(t, &h, old, 0, 1024), true, 0, nil); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{1024, 0} {
		got, err := a.Add(&h, partOf(t, &h, now, at, min(1024, len(now)-at)), true, 0, nil)
		if err != nil || (got != nil) != (at == 0) || at == 0 && !bytes.Equal(got, now) {
			t.Fatalf("at %d: %d bytes, %v", at, len(got), err)
		}
	}
}

// TestPartRoom cuts datagrams into slices of PartRoom. No slice may be larger, and all slices
// except the last must have whole blocks.
func TestPartRoom(t *testing.T) {
	for size := range 3000 {
		room := PartRoom(size)
		if room%PartGrain != 0 || room > 0 && (room+PartHeaderBytes > size ||
			room+PartGrain+PartHeaderBytes <= size) {
			t.Fatalf("PartRoom(%d) = %d", size, room)
		}
	}
}
