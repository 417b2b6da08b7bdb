package meet

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// node is an endpoint of a test.
type node struct{ id End[*node] }

func newTable(places int) *Table[*node] {
	t := new(Table[*node])
	t.Init(func(n *node) *End[*node] { return &n.id }, places, nil,
		Limits{PerAddress: 1 << 20, HalfOpen: 1 << 20})
	return t
}

// put adds an endpoint to an address and a life of the peer.
func put(t *Table[*node], addr string, life uint64, state State) *node {
	n := new(node)
	n.id.State = state
	n.id.Addr, n.id.Peer = addr, PeerTag{Incarnation: life}
	t.Add(n, 7*(t.births+1))
	if state == Accepting {
		t.beginHalf(n, addr)
	}
	return n
}

// Endpoints that come, displace each other, merge and go are found as a plain list of them says,
// and the Table's own Check agrees.
func TestTableModel(t *testing.T) {
	addrs := []string{"a", "b"}
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		table := newTable(8)
		var all []*node
		for step := range 100 {
			addr, life := addrs[rnd.IntN(2)], 1+rnd.Uint64N(2)
			switch k := rnd.IntN(5); {
			case k == 0 && !table.Full():
				n := put(table, addr, life, State(rnd.IntN(4)))
				table.Displace(n, table.ByAddr(addr))
				all = append(all, n)
			case k == 1 && !table.Full():
				n := put(table, addr, life, Accepting)
				table.SetPeer(n, PeerTag{life, rnd.Uint64()})
				table.LeadToIfFree(n)
				all = append(all, n)
			case k == 2 && len(all) > 0:
				i := rnd.IntN(len(all))
				table.Remove(all[i])
				all = append(all[:i], all[i+1:]...)
			case k == 3 && len(all) > 0:
				table.Rename(all[rnd.IntN(len(all))], rnd.Uint64())
			case k == 4 && len(all) > 1:
				newer := all[rnd.IntN(len(all))]
				if old := all[0]; newer != old && old.id.Addr == newer.id.Addr {
					table.StandBehind(old, newer)
				}
			}
			if err := table.Check(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			compare(t, table, all, addr, life)
		}
	}
}

// compare looks the endpoints of a list up in the table.
func compare(t *testing.T, table *Table[*node], all []*node, addr string, life uint64) {
	t.Helper()
	var half, lingering *node
	others := 0
	for _, n := range all {
		if table.Lookup(n.id.Tag) != n || !table.Holds(n) {
			t.Fatalf("endpoint %+v is not found by its tag", n.id)
		}
		if n.id.Peer.Tag != 0 && table.ByPeer(n.id.Peer, n.id.Addr) != n {
			t.Fatalf("endpoint %+v is not found by its peer", n.id)
		}
		if n.id.Addr != addr {
			continue
		}
		if n.id.State == Accepting && n.id.Peer.Incarnation == life {
			half = n // the latest one
		}
		if n.id.State == Lingering && lingering == nil && n.id.Peer.Incarnation == life {
			lingering = n
		}
		if (n.id.State == Connected || n.id.State == Lingering) && n.id.Peer.Incarnation != life {
			others++
		}
	}
	if got := table.HalfOpenTo(life, addr); got != half {
		t.Fatalf("half open to %s: %+v, want %+v", addr, got, half)
	}
	if got := table.OldestLingering(addr, life); got != lingering {
		t.Fatalf("lingering at %s: %+v, want %+v", addr, got, lingering)
	}
	if got := table.OfOtherLives(addr, life); got != others {
		t.Fatalf("%d of other lives at %s, want %d", got, addr, others)
	}
	if table.Len() != len(all) || table.Sole() != (len(all) == 1) {
		t.Fatalf("%d endpoints, want %d", table.Len(), len(all))
	}
}

// The address of an endpoint that ends leads to the latest one that it has displaced and that still
// lives.
func TestTableLeadsBack(t *testing.T) {
	table := newTable(8)
	first := put(table, "a", 1, Connected)
	table.LeadTo(first)
	second := put(table, "a", 2, Connecting)
	table.Displace(second, first)
	third := put(table, "a", 3, Connecting)
	table.Displace(third, second)
	second.id.State = Lingering
	table.Remove(third)
	if table.ByAddr("a") != first {
		t.Errorf("the address leads to %+v", table.ByAddr("a"))
	}
	table.Remove(first)
	if table.ByAddr("a") != nil {
		t.Errorf("the address leads to %+v, which has ended", table.ByAddr("a"))
	}
}

// An endpoint that connects ends those of other lives that it has displaced and all that were made
// before it; it ends none of its own life, and of those made later only what it has displaced.
func TestTableEarlierLives(t *testing.T) {
	table := newTable(8)
	before := put(table, "a", 1, Lingering)
	same := put(table, "a", 2, Connected)
	nameless := put(table, "a", 0, Connecting)
	elsewhere := put(table, "b", 1, Connected)
	ep := put(table, "a", 2, Connecting)
	displaced := put(table, "a", 3, Connected)
	later := put(table, "a", 4, Connected)
	table.StandBehind(displaced, ep)
	got := map[*node]bool{}
	for _, n := range table.EarlierLives(ep) {
		got[n] = true
	}
	want := map[*node]bool{before: true, displaced: true}
	for name, n := range map[string]*node{
		"before": before, "same": same, "nameless": nameless, "elsewhere": elsewhere, "itself": ep,
		"displaced": displaced, "later": later,
	} {
		if got[n] != want[n] {
			t.Errorf("%s ends: %v", name, got[n])
		}
	}
	if ep.id.Displaced() != nil {
		t.Error("what has ended is displaced still")
	}
}

// An endpoint whose tag was offered to one end of the peer may deal with another end only if the
// first one has a connection here.
func TestTableFree(t *testing.T) {
	for state := Connecting; state <= Lingering; state++ {
		table := newTable(4)
		ep := put(table, "a", 1, Connecting)
		other := put(table, "a", 1, state)
		table.SetPeer(other, PeerTag{1, 5})
		taken := state == Connected || state == Lingering
		if table.Free(ep, 5, 6) != taken {
			t.Errorf("state %v of the end that was told the tag: free %v", state, !taken)
		}
		if !table.Free(ep, 0, 6) || !table.Free(ep, 6, 6) || table.Free(ep, 9, 6) {
			t.Error("offered to none, to that end, or to an unknown one")
		}
	}
}

// A merged endpoint is what the half-open one was to the peer.
func TestTableMerge(t *testing.T) {
	table := newTable(4)
	ep, half := put(table, "a", 1, Connecting), put(table, "a", 1, Accepting)
	table.LeadTo(ep)
	table.SetPeer(half, PeerTag{1, 5})
	half.id.setLabel("x")
	tag, gone := half.id.Tag, ep.id.Tag
	table.endHalf(half, "a")
	table.Merge(ep, half)
	half.id.State = Ended
	if table.Lookup(tag) != ep || table.Lookup(gone) != nil ||
		table.ByPeer(PeerTag{1, 5}, "a") != ep || ep.id.Label() != "x" ||
		table.Len() != 1 {
		t.Errorf("merged into %+v", ep.id)
	}
	if err := table.Check(); err != nil {
		t.Error(err)
	}
}

// Check notices what leads to an endpoint that does not say so, and a chain that does not end.
func TestTableCheck(t *testing.T) {
	for want, breaks := range map[string]func(*Table[*node], *node){
		"connection tags": func(t *Table[*node], n *node) {
			t.SetPeer(n, PeerTag{1, 2})
			t.SetPeer(put(t, "a", 1, Connected), PeerTag{3, 4})
			n.id.Peer = PeerTag{3, 4}
		},
		"addresses": func(t *Table[*node], n *node) { t.byAddr["x"] = n },
		"displaced itself": func(_ *Table[*node], n *node) {
			n.id.setDisplaced(n)
		},
		"not its own": func(_ *Table[*node], n *node) { n.id.Tag++ },
		"half open":   func(_ *Table[*node], n *node) { n.id.State = Accepting },
	} {
		table := newTable(4)
		n := put(table, "a", 1, Connected)
		if err := table.Check(); err != nil {
			t.Fatal(err)
		}
		breaks(table, n)
		if err := table.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
