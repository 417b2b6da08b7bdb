package btl

import (
	"reflect"
	"runtime"
	"slices"
	"testing"

	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// heapBytes is what the heap holds that is in use.
func heapBytes() int {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}

// footprint is what a module of a window takes, in bytes: itself, without the packets' memory; each
// of its endpoints that is connected and has sent nothing; and one whose window is full both ways.
type footprint struct{ module, idle, busy int }

// measureFootprint has all peers at one address or, if they are apart, each on a host of its own.
func measureFootprint(t *testing.T, window int, apart bool) (f footprint) {
	t.Helper()
	const peers, packetBytes = 1000, 512
	cfg := Config{PeersMax: peers, RecvDepth: 64, TinyBytes: packetBytes}
	cfg.Rules.WindowPackets, cfg.Rules.Congestion = window, reliability.CongestionFixed
	net := mem.New(mem.Config{MTUBytes: packetBytes, QueueDatagrams: 64})
	infos, err := net.Provider().GetInfo(fabricHints)
	if err != nil {
		t.Fatal(err)
	}
	dc, err := cfg.DomainConfig(infos[0])
	if err != nil {
		t.Fatal(err)
	}
	dom, err := net.Open(dc)
	if err != nil {
		t.Fatal(err)
	}
	defer dom.Close() // and not the module, whose packets in flight are none
	before := heapBytes()
	m, err := Open(dom, cfg)
	if err != nil {
		t.Fatal(err)
	}
	f.module = heapBytes() - before

	other, err := net.Open(fabric.DomainConfig{Buffers: 64, BufferBytes: packetBytes})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	names := make([][]byte, peers)
	for i := range names {
		if i > 0 && !apart {
			names[i] = names[0]
			continue
		}
		at, err := other.OpenEndpoint(fabric.EndpointConfig{})
		if err != nil {
			t.Fatal(err)
		}
		names[i] = at.Name()
		if _, err := dom.Insert(names[i]); err != nil { // the provider's memory does not count
			t.Fatal(err)
		}
	}
	all := make([]*Endpoint, peers)
	before = heapBytes()
	for i := range all {
		ep, err := m.all.NewEndpoint(names[i], names[i], packetBytes, packetBytes)
		if err != nil {
			t.Fatal(err)
		}
		// With another incarnation, an endpoint would end those before it.
		m.all.Handshakes.Bind(ep, &frag.Header{Seq: 7}, &frag.Hello{
			Incarnation: 1, Tag: uint64(i + 1), WindowPkts: uint32(window), Credit: 1,
			FragBytesMax: 1 << 20, MTUBytes: packetBytes, CommandBytes: packetBytes,
			Features: frag.FeatureSack,
		})
		ep.ID.Handshake.Proven = frag.ProvenAll
		m.all.Handshakes.OnPacket(ep)
		m.callOut()
		all[i] = endpointOf(ep)
	}
	f.idle = (heapBytes() - before) / peers
	if n := m.all.Peers.Len(); n != peers || !all[0].Connected() {
		t.Fatalf("%d endpoints of %d, connected %v", n, peers, all[0].Connected())
	}

	ep := all[0]
	before = heapBytes()
	ep.c.Snd.Grant(1<<16 - 1)
	for i := range min(window, 1<<16-1) {
		ep.c.Snd.Admit(reliability.Token(i))
	}
	ep.c.Rcv.Accept(1, seq.Num(7+window-1), &m.all.Rules)
	f.busy = f.idle + heapBytes() - before
	runtime.KeepAlive(all)
	return f
}

// TestFootprint: an endpoint costs what it uses of its window, and not what it might use. The table
// of docs/performance.md has these figures.
func TestFootprint(t *testing.T) {
	usual := measureFootprint(t, reliability.WindowDefault, false)
	apart := measureFootprint(t, reliability.WindowDefault, true)
	widest := measureFootprint(t, 1<<16, false)
	for _, f := range []footprint{usual, apart, widest} {
		t.Logf("%+v", f)
	}
	const idleMost, apartMost, slack = 960, 1210, 64
	if widest.idle > usual.idle+slack || usual.idle > idleMost || apart.idle > apartMost {
		t.Errorf("an idle endpoint costs %d bytes, with the widest window %d, of an own host %d; at "+
			"most %d, the same, and %d", usual.idle, widest.idle, apart.idle, idleMost, apartMost)
	}
	for window, f := range map[int]footprint{reliability.WindowDefault: usual, 1 << 16: widest} {
		// A token for each packet that is out, a bit for each that is in.
		if most := f.idle + 4*window + window/8 + 1<<10; f.busy > most || f.busy < f.idle+4*window {
			t.Errorf("window of %d: a busy endpoint costs %d bytes, %d expected", window, f.busy, most)
		}
	}
}

// TestEndpointParts prints the parts of an Endpoint, and limits the size of the whole. A part that
// few endpoints need is a pointer that is nil at first.
func TestEndpointParts(t *testing.T) {
	typ := reflect.TypeFor[Endpoint]()
	fields := reflect.VisibleFields(typ)
	fields = slices.DeleteFunc(fields, func(f reflect.StructField) bool { return len(f.Index) > 1 })
	slices.SortStableFunc(fields, func(a, b reflect.StructField) int {
		return int(b.Type.Size()) - int(a.Type.Size())
	})
	for _, f := range fields {
		t.Logf("%4d bytes %s", f.Type.Size(), f.Name)
	}
	const most = 896 - 8 // a size of the allocator, which puts 8 bytes before a large object
	if typ.Size() > most {
		t.Errorf("an Endpoint has %d bytes, at most %d", typ.Size(), most)
	}
}
