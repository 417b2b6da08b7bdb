package frag

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"gobtl/internal/testenv"
)

const growRoom = 1400

// growHeader is the header and the length of a chunk of a fragment with chunks of growRoom bytes.
func growHeader(id, sizeBytes, chunk uint32) (Header, int) {
	h := Header{
		Kind: KindChunk, Tag: 1, FragID: id, SizeBytes: sizeBytes, OffsetBytes: chunk * growRoom,
		FirstBytes: growRoom, ChunkBytes: growRoom,
	}
	h.PayloadLen = uint16(min(growRoom, sizeBytes-h.OffsetBytes))
	return h, int(h.PayloadLen)
}

func newGrowing(t *testing.T, cfg PoolConfig, peers int) (*Pool, []*Assembler) {
	t.Helper()
	p, err := NewPool(cfg)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]*Assembler, peers)
	for i := range all {
		all[i] = new(Assembler)
		all[i].Init(p)
	}
	return p, all
}

// TestGrowAnnounced checks that a large announced fragment costs next to no memory, wherever the
// packet's chunk is in the fragment.
func TestGrowAnnounced(t *testing.T) {
	p, peers := newGrowing(t, PoolConfig{FragBytesMax: 1 << 30, BytesMax: 2 << 30}, 1)
	for id, chunk := range []uint32{0, 700, 100_000, 1<<30/growRoom - 1} {
		h, n := growHeader(uint32(id), 1<<30, chunk)
		_, err := peers[0].Add(&h, make([]byte, n), true)
		if far := chunk > aheadLeast/growRoom; far != errors.Is(err, ErrBudget) || !far && err != nil {
			t.Errorf("chunk %d: %v", chunk, err)
		}
	}
	if n := p.ActiveBytes(); n > 4*DefaultGrowBytes || peers[0].Active() != 2 {
		t.Errorf("%d bytes of %d fragments, of which two packets have come", n, peers[0].Active())
	}
	if err := errors.Join(p.Check(), peers[0].Check()); err != nil {
		t.Error(err)
	}
	peers[0].Drop()
	if n := p.ActiveBytes(); n != 0 {
		t.Errorf("%d bytes in use in the end", n)
	}
}

// TestGrowWhole checks that a growing fragment, with its chunks slightly out of order, is complete
// and unaltered.
func TestGrowWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t, 71), 1))
	const size = 5<<20 + 3
	sent := make([]byte, size)
	for i := range sent {
		sent[i] = byte(rng.Uint32())
	}
	p, peers := newGrowing(t, PoolConfig{
		FragBytesMax: 8 << 20, BytesMax: 64 << 20, GrowBytes: 4096,
	}, 1)
	order := make([]uint32, (size+growRoom-1)/growRoom)
	for i := range order {
		order[i] = uint32(i)
	}
	for i := range order {
		j := min(i+rng.IntN(20), len(order)-1)
		order[i], order[j] = order[j], order[i]
	}
	for i, chunk := range order {
		h, n := growHeader(1, size, chunk)
		m, err := peers[0].Add(&h, sent[h.OffsetBytes:][:n], false)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(p.Check(), peers[0].Check()); err != nil {
			t.Fatal(err)
		}
		if most := int64(growFactor * (i + 25) * growRoom); m == nil && p.ActiveBytes() > most+4096 {
			t.Fatalf("%d bytes in use for %d chunks", p.ActiveBytes(), i+1)
		}
		if last := i == len(order)-1; last != (m != nil) {
			t.Fatalf("chunk %d of %d: whole: %v", i, len(order), m != nil)
		}
		if m != nil && !bytes.Equal(m.Bytes, sent) {
			t.Error("another message than was sent")
		} else if m != nil {
			m.Release()
		}
	}
	if err := p.CheckIdle(); err != nil {
		t.Error(err)
	}
}

// TestGrowToTheEnd checks that fragments of many peers are completed, one after the other, and that
// the memory stays bounded.
func TestGrowToTheEnd(t *testing.T) {
	const count, size = 7, 1 << 20
	p, peers := newGrowing(t, PoolConfig{
		FragBytesMax: size, BytesMax: 2 * size, GrowBytes: 64 << 10, KeepBytes: -1,
	}, count)
	var next [count]uint32
	whole, refused := 0, 0
	for round := 0; whole < count && round < 100_000; round++ {
		i := round % count
		if int64(next[i])*growRoom >= size {
			continue
		}
		h, n := growHeader(9, size, next[i])
		m, err := peers[i].Add(&h, make([]byte, n), true)
		switch {
		case errors.Is(err, ErrBudget):
			refused++
			continue
		case err != nil:
			t.Fatal(err)
		}
		if next[i]++; m != nil {
			whole++
			m.Release()
		}
		if err := errors.Join(p.Check(), peers[i].Check()); err != nil {
			t.Fatal(err)
		}
	}
	if whole != count || refused == 0 || p.ActiveBytes() != 0 {
		t.Errorf("%d of %d are whole, %d chunks refused, %d bytes in use", whole, count, refused,
			p.ActiveBytes())
	}
}

// TestGrowBits checks that the bitmap of a fragment grows with its memory instead of the announced
// size. The number of the peer's fragments and the size of their chunks do not matter. No fragment
// is refused, because a peer beyond its share gets little memory for each fragment.
func TestGrowBits(t *testing.T) {
	const peersCount = 8
	cfg := PoolConfig{FragBytesMax: 1 << 30, BytesMax: 2 << 30, KeepBytes: -1}
	p, peers := newGrowing(t, cfg, peersCount)
	words, refused := 0, 0
	for _, a := range peers {
		for id := range uint32(ActiveMax) {
			h := Header{
				Kind: KindChunk, FragID: id, SizeBytes: 1 << 30, FirstBytes: ChunkBytesMin,
				ChunkBytes: ChunkBytesMin, PayloadLen: ChunkBytesMin,
			}
			if _, err := a.Add(&h, make([]byte, ChunkBytesMin), true); err != nil {
				if refused++; !errors.Is(err, ErrBudget) {
					t.Fatal(err)
				}
				break
			}
			words += cap(a.find(id).have)
		}
		if err := errors.Join(p.Check(), a.Check()); err != nil {
			t.Fatal(err)
		}
	}
	if bits := int64(8 * words); refused != 0 || bits == 0 || bits > p.ActiveBytes()/1000 {
		t.Errorf("%d bytes of bits beside %d bytes that count", bits, p.ActiveBytes())
	}
	for _, a := range peers {
		a.Drop()
	}
}

// TestGrowBitsToTheEnd checks a fragment of the smallest chunks. No chunk is refused, and no chunk
// is accepted twice, wherever its memory and its bitmap end in the meantime.
func TestGrowBitsToTheEnd(t *testing.T) {
	const sizeBytes = 40*64*ChunkBytesMin + 77
	p, peers := newGrowing(t, PoolConfig{
		FragBytesMax: 1 << 20, BytesMax: 4 << 20, GrowBytes: 1 << 10,
	}, 1)
	a, rng := peers[0], rand.New(rand.NewPCG(testenv.Seed(t, 5), 0))
	sent := make([]byte, sizeBytes)
	for i := range sent {
		sent[i] = byte(rng.Uint32())
	}
	var msg *Message
	for offset := uint32(0); offset < sizeBytes; {
		h := Header{
			Kind: KindChunk, FragID: 9, SizeBytes: sizeBytes, OffsetBytes: offset, FirstBytes: 1,
			ChunkBytes: ChunkBytesMin,
		}
		n := min(uint32(ChunkBytesMin), sizeBytes-offset)
		if offset == 0 {
			n = 1
		}
		var err error
		if room := a.ChunkMemory(9, offset, rng.IntN(5000)); offset > 0 && len(room) >= ChunkBytesMin {
			copy(room, sent[offset:][:ChunkBytesMin])
			msg, err = a.AddLanded(&h, ChunkBytesMin)
		} else {
			msg, err = a.Add(&h, sent[offset:offset+n], true)
		}
		if err != nil {
			t.Fatalf("at %d: %v", offset, err)
		}
		offset += n
		if err := errors.Join(p.Check(), a.Check()); err != nil {
			t.Fatal(err)
		}
		_, err = a.Add(&h, sent[h.OffsetBytes:][:n], true)
		if msg == nil && !errors.Is(err, ErrOverlap) {
			t.Fatalf("at %d again: %v", h.OffsetBytes, err)
		}
	}
	if msg == nil || !bytes.Equal(msg.Bytes, sent) {
		t.Fatal("not whole, or not what was sent")
	}
	msg.Release()
}

// TestHoarder checks a peer that sends one packet of each of many fragments. The peer gets no more
// memory than its share and the filled memory, even if the peer claims that the first packets are
// missing. Other peers make progress.
func TestHoarder(t *testing.T) {
	cfg := PoolConfig{FragBytesMax: 1 << 30, BytesMax: 2 << 30}
	share := int64(1<<30) / emptyPart
	for _, chunk := range []uint32{0, 1, 700, 13_000} { // 1 MiB and 18 MiB ahead
		p, peers := newGrowing(t, cfg, 2)
		taken := 0
		for id := range uint32(1025) {
			h, n := growHeader(id, 1<<30, chunk)
			if _, err := peers[0].Add(&h, make([]byte, n), true); err == nil {
				taken++
			} else if !errors.Is(err, ErrBudget) || chunk == 0 {
				t.Fatalf("chunk %d of fragment %d: %v", chunk, id, err)
			}
		}
		if most := share + 4<<20 + aheadMost + 1025*beginLeast; p.ActiveBytes() > most {
			t.Errorf("chunk %d: %d taken, %d MiB in use, at most %d", chunk, taken, p.ActiveBytes()>>20,
				most>>20)
		}
		for id := range uint32(200) {
			h, n := growHeader(id, 1<<20, 0)
			if _, err := peers[1].Add(&h, make([]byte, n), false); err != nil {
				t.Fatalf("somebody else's fragment %d: %v", id, err)
			}
		}
		if err := errors.Join(p.Check(), peers[0].Check(), peers[1].Check()); err != nil {
			t.Error(err)
		}
	}
}

// TestHoarderOfManyEnds checks that a peer with sixteen connections leaves memory to other peers.
// Each connection begins with a whole fragment, which raises the allowance of the connection above
// the connection's share of the pool.
func TestHoarderOfManyEnds(t *testing.T) {
	p, peers := newGrowing(t, PoolConfig{FragBytesMax: 256 << 20, BytesMax: 512 << 20}, 17)
	for _, a := range peers[:16] {
		sendWhole(t, a, 0, 1<<20)
		for id := range uint32(60) {
			h, n := growHeader(1+id, 256<<20, 0)
			_, _ = a.Add(&h, make([]byte, n), true)
		}
	}
	for id := range uint32(100) {
		h, n := growHeader(id, 1<<20, 0)
		if _, err := peers[16].Add(&h, make([]byte, n), false); err != nil {
			t.Fatalf("fragment %d of 1 MiB of somebody else: %v; %d MiB are in use", id, err,
				p.ActiveBytes()>>20)
		}
	}
	for _, a := range peers {
		a.Drop()
	}
	if p.emptyBytes != 0 {
		t.Errorf("%d bytes are empty, of nobody", p.emptyBytes)
	}
}

// TestHoarderOfManyHosts checks that a peer with a hundred connections from several addresses
// leaves memory to other peers.
func TestHoarderOfManyHosts(t *testing.T) {
	for _, ends := range []int{16, 48, 64, 100} {
		p, peers := newGrowing(t, PoolConfig{}, ends+1)
		for _, a := range peers[:ends] {
			for id := range uint32(60) {
				h, n := growHeader(id, p.cfg.FragBytesMax, 0)
				_, _ = a.Add(&h, make([]byte, n), true)
			}
		}
		for id := range uint32(100) {
			h, n := growHeader(id, 1<<20, 0)
			if _, err := peers[ends].Add(&h, make([]byte, n), false); err != nil {
				t.Fatalf("%d ends, fragment %d of 1 MiB of somebody else: %v; %d MiB are in use", ends, id,
					err, p.ActiveBytes()>>20)
			}
		}
		for _, a := range peers {
			a.Drop()
		}
	}
}

// TestHoarderGoesOn checks that fragments that a hoarding peer sends in order are reassembled.
func TestHoarderGoesOn(t *testing.T) {
	p, peers := newGrowing(t, PoolConfig{FragBytesMax: 64 << 20, BytesMax: 256 << 20}, 1)
	for id := range uint32(40) {
		h, n := growHeader(id, 8<<20, 0)
		if _, err := peers[0].Add(&h, make([]byte, n), true); err != nil {
			t.Fatal(err)
		}
	}
	if !peers[0].hoards() {
		t.Fatalf("%d bytes are empty", peers[0].emptyBytes)
	}
	const size = 3<<20 + 7
	sent := make([]byte, size)
	for i := range sent {
		sent[i] = byte(i * i >> 3)
	}
	for chunk := uint32(0); ; chunk++ {
		h, n := growHeader(999, size, chunk)
		m, err := peers[0].Add(&h, sent[h.OffsetBytes:][:n], true)
		if err != nil {
			t.Fatalf("chunk %d: %v", chunk, err)
		}
		if m == nil {
			continue
		}
		if !bytes.Equal(m.Bytes, sent) {
			t.Error("another message than was sent")
		}
		m.Release()
		break
	}
	if err := errors.Join(p.Check(), peers[0].Check()); err != nil {
		t.Error(err)
	}
}
