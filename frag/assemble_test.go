package frag

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

func mustPool(tb testing.TB, cfg PoolConfig) *Pool {
	tb.Helper()
	p, err := NewPool(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// chunkOf returns the i-th chunk of a fragment.
func chunkOf(id uint32, whole []byte, room, i int) (Header, []byte) {
	lo, hi := i*room, min((i+1)*room, len(whole))
	return Header{
		Kind: KindChunk, FragID: id, SizeBytes: uint32(len(whole)),
		OffsetBytes: uint32(lo), PayloadLen: uint16(hi - lo),
		FirstBytes: uint16(min(room, len(whole))), ChunkBytes: uint16(room),
	}, whole[lo:hi]
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestSplitEncodeDecodeAdd sends fragments from cutting to reassembly, with shuffled packets,
// through a wrap of the ids.
func TestSplitEncodeDecodeAdd(t *testing.T) {
	const room = 130
	r := rand.New(rand.NewPCG(1, 2))
	var a Assembler
	a.Init(mustPool(t, PoolConfig{}))
	want := map[uint32][]byte{}
	var packets [][]byte
	for i := range uint32(300) {
		id, whole := i-150, randomBytes(r, 1+r.IntN(5000))
		want[id] = whole
		for offset := 0; offset < len(whole); offset += room {
			n := min(room, len(whole)-offset)
			h := Header{
				Kind: KindChunk, Tag: uint8(i % 200), Conn: 1, FragID: id,
				SizeBytes: uint32(len(whole)), OffsetBytes: uint32(offset), PayloadLen: uint16(n),
				FirstBytes: uint16(min(room, len(whole))), ChunkBytes: room,
			}
			packets = append(packets, encodePacket(&h, whole[offset:offset+n]))
		}
	}
	r.Shuffle(len(packets), func(i, j int) { packets[i], packets[j] = packets[j], packets[i] })
	for _, pkt := range packets {
		var h Header
		payload, err := Decode(pkt, &h)
		if err != nil {
			t.Fatal(err)
		}
		m, err := a.Add(&h, payload, true)
		if err != nil {
			t.Fatal(err)
		}
		if m == nil {
			continue
		}
		if !bytes.Equal(m.Bytes, want[h.FragID]) || m.Tag != uint8((h.FragID+150)%200) {
			t.Fatalf("fragment %d differs", h.FragID)
		}
		delete(want, h.FragID)
		m.Release()
	}
	if len(want) != 0 || a.Active() != 0 {
		t.Fatalf("%d fragments missing, %d unfinished", len(want), a.Active())
	}
}

// TestBudgetEdges checks the limits to the byte, and that only packets in order use the reserve.
func TestBudgetEdges(t *testing.T) {
	const room, size = 512, 1024 // a fragment takes a buffer of 1024 bytes
	tests := []struct {
		about        string
		pool, peer   int64
		inOrder      bool
		want         int // fragments begun
		wantTwoPeers int
	}{
		{"in order, exactly", 4096, 4096, true, 4, 4},
		{"in order, a byte less", 4095, 4095, true, 3, 3},
		{"in order, the peer's limit", 4096, 3072, true, 3, 4},
		{"in order, the peer's limit, a byte less", 4096, 3071, true, 2, 4},
		{"early, exactly", 4096, 4096, false, 3, 3},
		{"early, a byte less", 4095, 4095, false, 2, 2},
		{"early, the peer's limit", 4096, 3072, false, 2, 3},
		{"early, one fragment", 1024, 1024, false, 0, 0},
		{"in order, one fragment", 1024, 1024, true, 1, 1},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			pool := mustPool(t, PoolConfig{
				FragBytesMax: size, BytesMax: test.pool,
				PeerBytesMax: test.peer,
			})
			var a, b Assembler
			a.Init(pool)
			b.Init(pool)
			fill := func(a *Assembler) {
				for id := range uint32(10) {
					h, payload := chunkOf(id, make([]byte, size), room, 0)
					if _, err := a.Add(&h, payload, test.inOrder); err != nil {
						if !errors.Is(err, ErrBudget) {
							t.Fatal(err)
						}
						return
					}
				}
			}
			fill(&a)
			if a.Active() != test.want {
				t.Fatalf("%d fragments, want %d", a.Active(), test.want)
			}
			fill(&b)
			if n := a.Active() + b.Active(); n != test.wantTwoPeers {
				t.Fatalf("%d fragments of two peers, want %d", n, test.wantTwoPeers)
			}
		})
	}
}

// TestBudgetNeverDeadlocks checks a sender with a small window and a receiver whose memory holds
// little more than one fragment. Packets are lost and shuffled, and later fragments arrive before
// earlier ones. All fragments must get through.
func TestBudgetNeverDeadlocks(t *testing.T) {
	const (
		room, window, fragments, peers = 100, 40, 60, 3
		chunksPer                      = 50 // more than a window
	)
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		const fragBytes = room * chunksPer
		pool := mustPool(t, PoolConfig{
			FragBytesMax: fragBytes, BytesMax: 4 * fragBytes,
			PeerBytesMax: 2 * fragBytes, KeepBytes: -1,
		})
		type peer struct {
			a    Assembler
			wait []int // packets of the window without an arrival so far, ascending
			next int
		}
		all := make([]peer, peers)
		for i := range all {
			all[i].a.Init(pool)
		}
		whole := make([]byte, room*chunksPer)
		left := peers * fragments
		for step := 0; left > 0; step++ {
			if step > 2_000_000 {
				t.Fatalf("seed %d: no progress with %d fragments left, %d bytes active", seed, left,
					pool.ActiveBytes())
			}
			p := &all[r.IntN(peers)]
			for len(p.wait) == 0 || p.next < p.wait[0]+window {
				if p.next == fragments*chunksPer {
					break
				}
				p.wait = append(p.wait, p.next)
				p.next++
			}
			if len(p.wait) == 0 {
				continue
			}
			i := r.IntN(len(p.wait))
			h, payload := chunkOf(uint32(p.wait[i]/chunksPer), whole, room, p.wait[i]%chunksPer)
			m, err := p.a.Add(&h, payload, i == 0)
			if err != nil && !errors.Is(err, ErrBudget) {
				t.Fatal(err)
			}
			if err == nil {
				p.wait = append(p.wait[:i], p.wait[i+1:]...)
			}
			if m != nil {
				left--
				m.Release()
			}
		}
	}
}

func TestTableGrowsAndGoes(t *testing.T) {
	const room = 100
	pool := mustPool(t, PoolConfig{})
	var a Assembler
	a.Init(pool)
	whole := make([]byte, 2*room)
	for id := range uint32(ActiveMax) {
		h, payload := chunkOf(id, whole, room, 0)
		if _, err := a.Add(&h, payload, true); err != nil {
			t.Fatalf("fragment %d: %v", id, err)
		}
	}
	if a.Active() != ActiveMax || len(a.slots) != ActiveMax {
		t.Fatalf("%d active in %d slots", a.Active(), len(a.slots))
	}
	h, payload := chunkOf(ActiveMax, whole, room, 0)
	if _, err := a.Add(&h, payload, true); !errors.Is(err, ErrSlot) {
		t.Fatalf("one more: %v", err)
	}
	a.Supersede(ActiveMax) // it is newer than the fragment in its place, which has ended
	if _, err := a.Add(&h, payload, true); err != nil || a.Active() != ActiveMax {
		t.Fatalf("in the slot of an ended fragment: %v, %d active", err, a.Active())
	}
	a.Supersede(0)
	a.Supersede(ActiveMax)
	if a.Active() != ActiveMax || a.find(ActiveMax) == nil {
		t.Fatalf("an older fragment takes the slot of a newer one: %d active", a.Active())
	}
	h, payload = chunkOf(5, whole, room, 1)
	m, err := a.Add(&h, payload, true)
	if err != nil || m == nil {
		t.Fatal(err)
	}
	m.Release()
	h, payload = chunkOf(ActiveMax+5, whole, room, 0)
	if _, err := a.Add(&h, payload, true); err != nil {
		t.Fatalf("in the slot that became free: %v", err)
	}
	a.Drop()
	if a.Active() != 0 || a.ActiveBytes() != 0 || a.slots != nil || pool.ActiveBytes() != 0 {
		t.Fatalf("after Drop: %d active, %d bytes, pool %d", a.Active(), a.ActiveBytes(),
			pool.ActiveBytes())
	}
	a.Drop()
}

func TestIdleAssemblerIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(Assembler{}); n > 40 {
		t.Errorf("%d bytes", n)
	}
}

func TestMessagesOutliveTheirAssembler(t *testing.T) {
	const room = 100
	var a Assembler
	a.Init(mustPool(t, PoolConfig{}))
	var out []*Message
	for id := range uint32(5) {
		h, payload := chunkOf(id, bytes.Repeat([]byte{byte(id)}, room), room, 0)
		m, err := a.Add(&h, payload, true)
		if err != nil || m == nil {
			t.Fatal(m, err)
		}
		out = append(out, m)
	}
	a.Drop()
	for id, m := range out {
		if !bytes.Equal(m.Bytes, bytes.Repeat([]byte{byte(id)}, room)) {
			t.Fatalf("message %d changed", id)
		}
	}
	out[2].Release()
	defer func() {
		if recover() == nil {
			t.Fatal("a second Release does not panic")
		}
	}()
	out[2].Release()
}

func TestClasses(t *testing.T) {
	for class := range classCount {
		size := uint32(min(classBytes(class), 1<<32-1))
		if got := classOf(size); got != class {
			t.Fatalf("classOf(%d) = %d, want %d", size, got, class)
		}
		if class == classCount-1 {
			continue
		}
		if got := classOf(size + 1); got != class+1 {
			t.Fatalf("classOf(%d) = %d, want %d", size+1, got, class+1)
		}
		if next := classBytes(class + 1); next <= int64(size) || next > int64(size)*5/4 {
			t.Fatalf("class %d has %d bytes after %d", class+1, next, size)
		}
	}
	if classOf(1) != 0 || classOf(1<<32-1) != classCount-1 {
		t.Fatal("the ends")
	}
}

func TestPoolConfig(t *testing.T) {
	good := map[string]PoolConfig{
		"zero":            {},
		"large fragments": {FragBytesMax: 1<<32 - 1},
		"small pool":      {BytesMax: 1000},
		"tight":           {FragBytesMax: 1000, BytesMax: 1000, PeerBytesMax: 1000, KeepBytes: -1},
	}
	for name, cfg := range good {
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad := map[string]PoolConfig{
		"pool below fragment": {FragBytesMax: 1001, BytesMax: 1000},
		"negative pool":       {BytesMax: -1},
		"peer below fragment": {FragBytesMax: 1001, PeerBytesMax: 1000},
		"peer above pool":     {BytesMax: 1000, PeerBytesMax: 1001},
		"negative peer":       {PeerBytesMax: -5},
	}
	for name, cfg := range bad {
		if err := cfg.Validate(); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
		if p, err := NewPool(cfg); p != nil || !errors.Is(err, ErrConfig) {
			t.Errorf("%s: NewPool: %v", name, err)
		}
	}
	if got := mustPool(t, PoolConfig{}).FragBytesMax(); got != DefaultFragBytesMax {
		t.Errorf("default fragment %d", got)
	}
	// By default there is memory in addition to the reserve, if the pool has enough memory.
	cfg := PoolConfig{FragBytesMax: 1 << 30, BytesMax: 2 << 30}.withDefaults()
	if cfg.PeerBytesMax != 3<<29 {
		t.Errorf("default of a peer %d", cfg.PeerBytesMax)
	}
}

// TestLargestFragmentFits checks that the largest permitted fragment can be received, for any
// limit.
func TestLargestFragmentFits(t *testing.T) {
	for _, size := range []int{1, 999, 1024, 1025, 5001} {
		var a Assembler
		a.Init(mustPool(t, PoolConfig{FragBytesMax: uint32(size), BytesMax: int64(size)}))
		h, payload := chunkOf(0, make([]byte, size), 5001, 0)
		if m, err := a.Add(&h, payload, true); err != nil || len(m.Bytes) != size {
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
}

// TestAddAllocatesNothing checks the steady state, with fragments that overlap in time and tables
// that grow and disappear.
func TestAddAllocatesNothing(t *testing.T) {
	const room, together = 1432, 20
	var a Assembler
	a.Init(mustPool(t, PoolConfig{}))
	whole := make([]byte, 64<<10)
	chunks := int(Chunks(uint32(len(whole)), room))
	id := uint32(0)
	round := func() {
		for i := range chunks {
			for j := range uint32(together) {
				h, payload := chunkOf(id+j, whole, room, i)
				m, err := a.Add(&h, payload, true)
				if err != nil || (m != nil) != (i == chunks-1) {
					t.Fatal(m, err)
				}
				if m != nil {
					m.Release()
				}
			}
		}
		id += together
	}
	round()
	if allocs := testing.AllocsPerRun(20, round); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	h, payload := chunkOf(id, whole, room, 0)
	h.OffsetBytes++
	if allocs := testing.AllocsPerRun(20, func() {
		if _, err := a.Add(&h, payload, true); err == nil {
			t.Fatal("no error")
		}
	}); allocs != 0 {
		t.Errorf("%v allocations for a refused packet", allocs)
	}
}

func BenchmarkAdd(b *testing.B) {
	for _, size := range []int{2 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			const room = 1432
			var a Assembler
			a.Init(mustPool(b, PoolConfig{}))
			whole := make([]byte, size)
			chunks := int(Chunks(uint32(size), room))
			id, i := uint32(0), 0
			b.SetBytes(int64(min(size, room)))
			for b.Loop() {
				h, payload := chunkOf(id, whole, room, i)
				m, err := a.Add(&h, payload, true)
				if err != nil {
					b.Fatal(err)
				}
				if i++; i == chunks {
					m.Release()
					i = 0
					id++
				}
			}
		})
	}
}

func ExampleAssembler() {
	pool, err := NewPool(PoolConfig{})
	if err != nil {
		fmt.Println(err)
	}
	var a Assembler
	a.Init(pool)
	for _, c := range []struct {
		offset uint32
		bytes  string
	}{{8, "!!"}, {0, "asse"}, {0, "asse"}, {4, "m"}, {4, "mbly"}} {
		h := Header{Kind: KindChunk, FragID: 1, SizeBytes: 10, OffsetBytes: c.offset}
		h.FirstBytes, h.ChunkBytes = 4, 4
		m, err := a.Add(&h, []byte(c.bytes), true)
		switch {
		case err != nil:
			fmt.Println(err)
		case m != nil:
			fmt.Println(string(m.Bytes))
			m.Release()
		}
	}
	// Output:
	// frag: chunk received before
	// frag: offset or size out of bounds
	// assembly!!
}

// TestUnusedAssembler: an Assembler without a first chunk answers all questions, and keeps no more
// than itself.
func TestUnusedAssembler(t *testing.T) {
	var a Assembler
	a.Init(mustPool(t, PoolConfig{}))
	a.Drop()
	a.Forget(1)
	a.Supersede(1)
	all, before := a.Stalled(2, 1, 1)
	if a.Active() != 0 || a.ActiveBytes() != 0 || a.ArrivedBytes() != 0 || all+before != 0 ||
		a.HasReserve() || a.ChunkMemory(1, 0, 1) != nil || a.Anticipate(1, 1, 1, 1) != nil ||
		a.Check() != nil || a.tally != nil {
		t.Errorf("%+v", a)
	}
	h, payload := chunkOf(1, make([]byte, 200), 100, 0)
	if _, err := a.AddLanded(&h, len(payload)); !errors.Is(err, ErrNotBegun) {
		t.Errorf("a chunk in no memory: %v", err)
	}
}
