package byhost

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gobtl/internal/testenv"
)

// fillHost creates holders of one host. Each holder adds the given amount until MayAdd refuses it,
// or until the holder has a quarter of the limit. fillHost returns the sum of all amounts.
func fillHost(b *Bound, host string, holders int, amount int64) (held int64) {
	for range holders {
		h := new(Holder)
		b.Enter(h, host)
		for taken := int64(0); taken < b.most/4 && b.MayAdd(h, amount); taken += amount {
			b.Add(h, amount)
			held += amount
		}
	}
	return held
}

// Each host with many holders gets half of what the host before it has got, and never less than
// one addition. What each holder may always hold does not reduce the share of other hosts.
func TestBoundShares(t *testing.T) {
	const most, free, amount, many = 1 << 20, 1 << 10, 1 << 12, 50
	b := NewBound(most, free)
	for range 4 * most / free {
		h := new(Holder)
		b.Enter(h, "small")
		if !b.MayAdd(h, free) {
			t.Fatal("a holder may not have its free amount")
		}
		b.Add(h, free)
	}
	if n := b.Counted(); n != 0 || b.Full() {
		t.Errorf("%d of the free amounts count", n)
	}
	sum := int64(0)
	for i := range 100 {
		n := fillHost(&b, fmt.Sprint("host ", i), many, amount)
		sum += n
		if want := int64(most >> i); n < want-2*amount || n > max(want, 2*amount)+amount {
			t.Errorf("host %d holds %d, want about %d", i, n, want)
		}
		if n < amount {
			t.Errorf("host %d, without anything, may not begin", i)
		}
	}
	if !b.Full() || sum > 2*most+101*amount {
		t.Errorf("all hosts hold %d together", sum)
	}
	h := new(Holder)
	b.Enter(h, "large")
	if !b.MayAdd(h, 100*most) {
		t.Error("a host without anything may not begin a large addition")
	}
	b.Add(h, 100*most)
	if b.MayAdd(h, 1) {
		t.Error("a host may go on beyond its share")
	}
}

// The counts of a Bound are those of a slow model, also when holders move to other hosts and leave.
func TestBoundModel(t *testing.T) {
	const most, free, hosts, holders = 1000, 10, 3, 9
	random := rand.New(rand.NewPCG(testenv.Seed(t, 1), 2))
	b := NewBound(most, free)
	var all [holders]Holder
	var at [holders]string // "" if the holder has left
	for step := range 20_000 {
		i := random.IntN(holders)
		h := &all[i]
		switch kind := random.IntN(8); {
		case at[i] == "" || kind == 0:
			at[i] = fmt.Sprint("host ", random.IntN(hosts))
			b.Enter(h, at[i])
		case kind == 1:
			b.Leave(h)
			at[i] = ""
		case kind < 5:
			if n := 1 + random.Int64N(100); b.MayAdd(h, n) {
				b.Add(h, n)
			}
		case h.held > 0:
			b.Add(h, -1-random.Int64N(h.held))
		}
		sum, counted, members := int64(0), map[string]int64{}, map[string]int{}
		for i := range all {
			if at[i] == "" {
				continue
			}
			members[at[i]]++
			if n := all[i].Held(); n > free {
				counted[at[i]] += n
				sum += n
			}
		}
		if b.Counted() != sum || len(b.hosts) != len(members) {
			t.Fatalf("step %d: %d count at %d hosts, want %d at %d", step, b.Counted(), len(b.hosts), sum,
				len(members))
		}
		for name, h := range b.hosts {
			if h.counted != counted[name] || h.holders != members[name] {
				t.Fatalf("step %d: %s has %+v, want %d of %d", step, name, *h, counted[name], members[name])
			}
		}
	}
}

// A host that comes and goes costs no allocation.
func TestBoundAllocations(t *testing.T) {
	b := NewBound(1000, 10)
	var h, other Holder
	b.Enter(&other, "other")
	b.Enter(&h, "a")
	b.Leave(&h)
	if n := testing.AllocsPerRun(100, func() {
		b.Enter(&h, "a")
		b.Add(&h, 100)
		b.Add(&h, -100)
		b.Leave(&h)
	}); n != 0 {
		t.Errorf("a host that comes and goes costs %v allocations", n)
	}
}
