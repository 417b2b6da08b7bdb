package frag

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// model is the expected behaviour of a Pool with some Assemblers, in the simplest form. The model
// uses maps, and the bytes of every chunk by its offset.
type model struct {
	cfg   PoolConfig
	pool  *Pool
	peers []*modelPeer
	out   []modelMessage
}

type modelPeer struct {
	real      Assembler
	roomBytes uint32
	undone    map[uint32]*modelFragment
}

type modelFragment struct {
	size   uint32
	grid   grid
	tag    uint8
	pieces map[uint32][]byte // by offset
}

type modelMessage struct {
	real *Message
	want []byte
	cap  int64
}

func newModel(tb testing.TB, cfg PoolConfig, rooms ...int) *model {
	tb.Helper()
	pool, err := NewPool(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	m := &model{cfg: cfg.withDefaults(), pool: pool}
	for _, room := range rooms {
		p := &modelPeer{roomBytes: uint32(room), undone: map[uint32]*modelFragment{}}
		p.real.Init(pool)
		m.peers = append(m.peers, p)
	}
	return m
}

// capacity is the smallest of 1024, 1280, 1536, 1792, 2048, 2560, and so on that holds size. The
// capacity is at most the largest fragment.
func (m *model) capacity(size uint32) int64 {
	for double := int64(1024); ; double *= 2 {
		for quarter := int64(4); quarter < 8; quarter++ {
			if c := double / 4 * quarter; c >= int64(size) {
				return min(c, int64(m.cfg.FragBytesMax))
			}
		}
	}
}

func (m *model) peerBytes(p *modelPeer) (n int64) {
	for _, f := range p.undone {
		n += m.capacity(f.size)
	}
	return n
}

func (m *model) activeBytes() (n int64) {
	for _, p := range m.peers {
		n += m.peerBytes(p)
	}
	for _, o := range m.out {
		n += o.cap
	}
	return n
}

// judge returns the error that a chunk must get.
func (m *model) judge(p *modelPeer, h *Header, payload []byte, inOrder bool) error {
	size, offset, n := uint64(h.SizeBytes), uint64(h.OffsetBytes), uint64(len(payload))
	if h.Kind != KindChunk || h.Flags&FlagPut != 0 {
		return ErrKind
	}
	first, room := uint64(h.FirstBytes), uint64(h.ChunkBytes)
	if first == 0 || room == 0 || first > size || offset+n > size {
		return ErrBounds
	}
	length := room
	if offset == 0 {
		length = first
	} else if offset < first || (offset-first)%room != 0 {
		return ErrBounds
	}
	if n == 0 || n > length || n < length && offset+n != size {
		return ErrBounds
	}
	if f := p.undone[h.FragID]; f != nil {
		if f.size != h.SizeBytes || f.tag != h.Tag || f.grid != gridOf(h) {
			return ErrMismatch
		}
		if f.pieces[h.OffsetBytes] != nil {
			return ErrOverlap
		}
		return nil
	}
	if h.SizeBytes > m.cfg.FragBytesMax {
		return ErrTooLarge
	}
	for id := range p.undone {
		if id%ActiveMax == h.FragID%ActiveMax {
			return ErrSlot
		}
	}
	need := m.capacity(h.SizeBytes)
	if !inOrder {
		need += int64(m.cfg.FragBytesMax)
	}
	if m.peerBytes(p)+need > m.cfg.PeerBytesMax || m.activeBytes()+need > m.cfg.BytesMax {
		return ErrBudget
	}
	return nil
}

func (m *model) add(tb rapid.TB, peer int, h Header, payload []byte, inOrder bool) error {
	tb.Helper()
	p := m.peers[peer%len(m.peers)]
	want := m.judge(p, &h, payload, inOrder)
	got, err := p.real.Add(&h, payload, inOrder)
	return m.added(tb, p, h, payload, inOrder, got, err, want)
}

// land is add for a chunk that is first written to its landing, if there is one. If wrong is set,
// other bytes land, and the chunk is added in the ordinary way, or not at all.
func (m *model) land(tb rapid.TB, peer int, h Header, payload []byte, wrong bool) error {
	tb.Helper()
	p := m.peers[peer%len(m.peers)]
	// The grid may have larger chunks than the peer usually sends.
	room := max(2*int(p.roomBytes), len(payload))
	mem := m.landing(tb, p, h.FragID, h.OffsetBytes, room)
	if wrong {
		for i := range mem {
			mem[i] = 0xBA
		}
		if len(payload)%2 == 0 {
			return m.add(tb, peer, h, payload, true)
		}
		return nil
	}
	want := m.judge(p, &h, payload, true)
	if !errors.Is(want, ErrKind) && !errors.Is(want, ErrBounds) && p.undone[h.FragID] == nil {
		want = ErrNotBegun
	}
	if want == nil && len(mem) < len(payload) {
		tb.Fatalf("no landing for %+v: %d bytes", h, len(mem))
	}
	if want == nil {
		copy(mem, payload)
	}
	got, err := p.real.AddLanded(&h, len(payload))
	if err != nil { // the chunk is unchanged
		m.landing(tb, p, h.FragID, h.OffsetBytes, 5*int(p.roomBytes))
	}
	return m.added(tb, p, h, payload, true, got, err, want)
}

// landing checks a landing of one peer, chunk by chunk.
func (m *model) landing(tb rapid.TB, p *modelPeer, id, offset uint32, maxBytes int) []byte {
	tb.Helper()
	want := 0
	f := p.undone[id]
	if f != nil && (offset == 0 || offset >= f.grid.first &&
		(offset-f.grid.first)%f.grid.chunk == 0) {
		for at := offset; at < f.size && f.pieces[at] == nil; {
			n := min(f.grid.chunk, f.size-at)
			if at == 0 {
				n = f.grid.first
			}
			if want+int(n) > maxBytes {
				break
			}
			want += int(n)
			at += n
		}
	}
	mem := p.real.ChunkMemory(id, offset, maxBytes)
	if len(mem) != want || cap(mem) != want || (mem == nil) != (want == 0) {
		tb.Fatalf("a landing of %d bytes (%d) for fragment %d from %d on, want %d of at most %d",
			len(mem), cap(mem), id, offset, want, maxBytes)
	}
	return mem
}

// added compares the result of adding a chunk with the model, and updates the model.
func (m *model) added(tb rapid.TB, p *modelPeer, h Header, payload []byte, inOrder bool,
	got *Message, err, want error,
) error {
	tb.Helper()
	if !errors.Is(err, want) || want == nil && err != nil {
		tb.Fatalf("Add(%+v, %d bytes, %v): %v, want %v", h, len(payload), inOrder, err, want)
	}
	if err != nil {
		if got != nil {
			tb.Fatalf("a message beside %v", err)
		}
		return err
	}
	f := p.undone[h.FragID]
	if f == nil {
		f = &modelFragment{
			size: h.SizeBytes, tag: h.Tag, grid: gridOf(&h), pieces: map[uint32][]byte{},
		}
		p.undone[h.FragID] = f
	}
	f.pieces[h.OffsetBytes] = bytes.Clone(payload)
	var whole []byte
	for len(whole) < int(f.size) {
		piece := f.pieces[uint32(len(whole))]
		if piece == nil {
			break
		}
		whole = append(whole, piece...)
	}
	if len(whole) < int(f.size) {
		if got != nil {
			tb.Fatalf("fragment %d is whole too early", h.FragID)
		}
		return nil
	}
	if got == nil || !bytes.Equal(got.Bytes, whole) || got.Tag != h.Tag ||
		cap(got.Bytes) != len(got.Bytes) {
		tb.Fatalf("fragment %d: message %+v, want %x", h.FragID, got, whole)
	}
	delete(p.undone, h.FragID)
	m.out = append(m.out, modelMessage{got, whole, m.capacity(f.size)})
	return nil
}

// release checks that the i-th message is unaltered, releases the message, and overwrites its
// memory.
func (m *model) release(tb rapid.TB, i int) {
	tb.Helper()
	if len(m.out) == 0 {
		return
	}
	i %= len(m.out)
	o := m.out[i]
	if !bytes.Equal(o.real.Bytes, o.want) {
		tb.Fatalf("a message changed before its release: %x, want %x", o.real.Bytes, o.want)
	}
	for j := range o.real.Bytes {
		o.real.Bytes[j] = 0xDD
	}
	o.real.Release()
	m.out = append(m.out[:i], m.out[i+1:]...)
}

func (m *model) drop(peer int) {
	p := m.peers[peer%len(m.peers)]
	p.real.Drop()
	clear(p.undone)
}

func (m *model) forget(peer int, fragID uint32) {
	p := m.peers[peer%len(m.peers)]
	p.real.Forget(fragID)
	delete(p.undone, fragID)
}

// check compares the counters and the bounds.
func (m *model) check(tb rapid.TB) {
	tb.Helper()
	p := m.pool
	if p.ActiveBytes() != m.activeBytes() {
		tb.Fatalf("%d bytes active, want %d", p.ActiveBytes(), m.activeBytes())
	}
	idle := int64(0)
	for class, first := range p.idle {
		for b := first; b != nil; b = b.nextIdle {
			if b.state != messageIdle || int(b.class) != class || b.Bytes != nil {
				tb.Fatalf("a buffer in use among the idle ones")
			}
			idle += b.capBytes()
		}
	}
	if p.IdleBytes() != idle || idle > max(0, m.cfg.KeepBytes) {
		tb.Fatalf("%d bytes idle, found %d, limit %d", p.IdleBytes(), idle, m.cfg.KeepBytes)
	}
	if p.ActiveBytes()+idle > m.cfg.BytesMax {
		tb.Fatalf("%d bytes active and %d idle of %d", p.ActiveBytes(), idle, m.cfg.BytesMax)
	}
	if err := p.CheckIdle(); err != nil {
		tb.Fatal(err)
	}
	for i, peer := range m.peers {
		a := &peer.real
		if err := a.Check(); err != nil {
			tb.Fatal(err)
		}
		if a.Active() != len(peer.undone) || a.ActiveBytes() != m.peerBytes(peer) ||
			len(a.slots) > ActiveMax || a.Active() == 0 && a.slots != nil {
			tb.Fatalf("peer %d: %d active, %d bytes, %d slots; want %d, %d", i, a.Active(),
				a.ActiveBytes(), len(a.slots), len(peer.undone), m.peerBytes(peer))
		}
	}
	for _, table := range p.tables {
		for _, t := range table {
			for _, slot := range t {
				if slot != nil {
					tb.Fatal("a fragment in an idle table")
				}
			}
		}
	}
}

// modelConfig is tight enough to reach every limit with a few fragments. BytesMax is one byte short
// of nine small buffers.
var modelConfig = PoolConfig{
	FragBytesMax: 3000, BytesMax: 9<<10 - 1, PeerBytesMax: 7 << 10, KeepBytes: 4 << 10,
}

func TestAssemblerModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(&testing.T{}, modelConfig, 100, 333)
		// There are few ids, some of which need the same slot in tables of any size.
		ids := []uint32{0, 1, 2, 8, 16, 1024, ActiveMax, ActiveMax + 1, 1<<32 - 1, 1 << 31}
		chunk := func(t *rapid.T) {
			peer := rapid.IntRange(0, 1).Draw(t, "peer")
			room := m.peers[peer].roomBytes
			h := Header{Kind: KindChunk, FragID: rapid.SampledFrom(ids).Draw(t, "id")}
			h.SizeBytes = rapid.SampledFrom([]uint32{
				1, room, 2 * room, 3*room - 1, 8 * room, 8*room + 5,
			}).Draw(t, "size")
			if rapid.IntRange(0, 9).Draw(t, "large?") == 0 {
				h.SizeBytes = rapid.Uint32Range(1, 3010).Draw(t, "any size")
			}
			firsts := []uint32{1, 7, room, room, 2 * room}
			g := grid{min(h.SizeBytes, rapid.SampledFrom(firsts).Draw(t, "first")), room}
			if f := m.peers[peer].undone[h.FragID]; f != nil {
				h.SizeBytes, h.Tag, g = f.size, f.tag, f.grid
			}
			h.FirstBytes, h.ChunkBytes = uint16(g.first), uint16(g.chunk)
			h.OffsetBytes = uint32(g.start(rapid.Uint32Range(0, g.chunks(h.SizeBytes)-1).Draw(t, "chunk")))
			n := min(g.size(g.index(h.OffsetBytes)), h.SizeBytes-h.OffsetBytes)
			switch rapid.IntRange(0, 30).Draw(t, "fault") {
			case 0:
				h.OffsetBytes += rapid.Uint32().Draw(t, "shift")
			case 1:
				n = rapid.Uint32Range(0, 400).Draw(t, "length")
			case 2:
				h.SizeBytes = rapid.Uint32().Draw(t, "wrong size")
			case 3:
				h.Tag++
			case 4:
				h.Flags = FlagPut
			case 5:
				h.FirstBytes = uint16(rapid.Uint32Range(0, 400).Draw(t, "other first"))
			case 6:
				h.ChunkBytes = uint16(rapid.Uint32Range(0, 400).Draw(t, "other chunk"))
			}
			payload := bytes.Repeat([]byte{rapid.Byte().Draw(t, "fill")}, int(n))
			switch rapid.IntRange(0, 3).Draw(t, "way") {
			case 0, 1:
				_ = m.land(t, peer, h, payload, rapid.IntRange(0, 1).Draw(t, "wrong?") == 1)
			default:
				_ = m.add(t, peer, h, payload, rapid.Bool().Draw(t, "in order?"))
			}
			m.landing(t, m.peers[peer], h.FragID, h.OffsetBytes, rapid.IntRange(-1, 3200).Draw(t, "landing"))
		}
		t.Repeat(map[string]func(*rapid.T){
			"chunk":      chunk,
			"more chunk": chunk,
			"release":    func(t *rapid.T) { m.release(t, rapid.IntRange(0, 20).Draw(t, "which")) },
			"drop": func(t *rapid.T) {
				if rapid.IntRange(0, 5).Draw(t, "really?") == 0 {
					m.drop(rapid.IntRange(0, 1).Draw(t, "peer"))
				}
			},
			"forget": func(t *rapid.T) {
				m.forget(rapid.IntRange(0, 1).Draw(t, "peer"), rapid.SampledFrom(ids).Draw(t, "id"))
			},
			"": func(t *rapid.T) { m.check(t) },
		})
	})
}

// TestModelLandsLargeChunks lands a chunk that is larger than two of the peer's usual chunks.
func TestModelLandsLargeChunks(t *testing.T) {
	m := newModel(t, modelConfig, 100, 333)
	h := Header{Kind: KindChunk, FragID: 1, SizeBytes: 801, FirstBytes: 1, ChunkBytes: 400}
	if err := m.add(t, 0, h, []byte{1}, true); err != nil {
		t.Fatal(err)
	}
	for _, h.OffsetBytes = range []uint32{1, 401} {
		if err := m.land(t, 0, h, bytes.Repeat([]byte{2}, 400), false); err != nil {
			t.Fatal(err)
		}
	}
	m.check(t)
}

// FuzzAssembler reads its input as a program. Each step is an operation byte followed by the fields
// of a chunk.
func FuzzAssembler(f *testing.F) {
	chunk := func(peer, id, size, index byte) []byte {
		return []byte{0x10 | peer, id, size, index, 0x5A}
	}
	f.Add(bytes.Join([][]byte{chunk(0, 1, 3, 0), chunk(0, 1, 3, 2), chunk(0, 1, 3, 1), {2}}, nil))
	f.Add(bytes.Join([][]byte{chunk(1, 1, 9, 0), chunk(1, 9, 9, 1), chunk(1, 17, 9, 0), {1}}, nil))
	landed := func(id, index, how byte) []byte { return []byte{how, id, 9, index, 0xA5} }
	f.Add(bytes.Join([][]byte{
		chunk(0, 1, 9, 0), landed(1, 1, 0x10), landed(1, 2, 0x50), landed(1, 2, 0x10),
		landed(1, 3, 0x10), landed(1, 4, 0x10), landed(2, 0, 0x10),
	}, nil))
	f.Add(bytes.Join([][]byte{
		chunk(0, 1, 19, 0), landed(1, 1, 0x54), landed(1, 4, 0x56), landed(1, 2, 0x52),
		landed(1, 4, 0x5A), landed(2, 0, 0x54),
	}, nil))
	twice := chunk(0, 7, 2, 0)
	f.Add(bytes.Join([][]byte{twice, twice, chunk(0, 7, 3, 1), {9, 1}}, nil))
	f.Fuzz(func(t *testing.T, program []byte) {
		m := newModel(t, modelConfig, 100, 333)
		next := func() byte {
			if len(program) == 0 {
				return 0
			}
			b := program[0]
			program = program[1:]
			return b
		}
		for range 2000 {
			if len(program) == 0 {
				break
			}
			switch op := next(); {
			case op == 1:
				m.drop(int(next()))
			case op == 2:
				id := next()
				m.forget(int(id&1), uint32(id)*8)
			case op < 8:
				m.release(t, int(op))
			default:
				room := m.peers[int(op)%2].roomBytes
				h := Header{Kind: KindChunk, FragID: uint32(next()) * 8, Tag: op >> 7}
				size, index, fill := next(), next(), next()
				h.SizeBytes = uint32(size)*50 + uint32(size)/64
				g := grid{min(max(uint32(size)/2, 1), max(h.SizeBytes, 1)), room}
				h.FirstBytes, h.ChunkBytes = uint16(g.first), uint16(room)
				h.OffsetBytes = uint32(g.start(uint32(index)))
				n := room
				if h.OffsetBytes == 0 {
					n = g.first
				} else if h.OffsetBytes < h.SizeBytes {
					n = min(room, h.SizeBytes-h.OffsetBytes)
				}
				if op&0x20 != 0 { // a chunk with any offset and length
					h.OffsetBytes = uint32(next())<<24 | uint32(next())
					n = uint32(next()) * 2
				}
				payload := bytes.Repeat([]byte{fill}, int(n))
				if fill < 0x80 {
					_ = m.add(t, int(op), h, payload, op&0x40 == 0)
				} else {
					_ = m.land(t, int(op), h, payload, op&0x40 == 0)
				}
			}
			m.check(t)
		}
	})
}
