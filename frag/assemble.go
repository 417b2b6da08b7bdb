package frag

import (
	"errors"
	"fmt"
	"math/bits"
)

// Add, AddLanded and BeginLanded return the errors below, ErrKind and ErrBounds, and do not wrap
// these errors.
var (
	// ErrMismatch means that the fragment size, the tag or the chunk sizes in a chunk's header
	// differ from those of earlier chunks of the same fragment.
	ErrMismatch = errors.New("frag: chunk contradicts its fragment")
	// ErrOverlap means that the same chunk was already received.
	ErrOverlap = errors.New("frag: chunk received before")
	// ErrTooLarge means that a fragment is larger than PoolConfig.FragBytesMax.
	ErrTooLarge = errors.New("frag: fragment exceeds the limit")
	// ErrSlot means that the peer has too many unfinished fragments.
	ErrSlot = errors.New("frag: too many unfinished fragments")
	// ErrNotBegun means that the fabric has not written a directly received chunk to the buffer of
	// its fragment.
	ErrNotBegun = errors.New("frag: landed chunk is not in its fragment's memory")
	// ErrBudget means that the memory limit PoolConfig.BytesMax or PeerBytesMax is reached. The
	// caller may later call Add again with the same packet.
	ErrBudget = errors.New("frag: reassembly memory exhausted")
)

// ActiveMax is the largest number of unfinished fragments of one Assembler. ActiveMax is half of
// the largest send window, because a fragment in chunks takes at least two packets.
const ActiveMax = 2048

const (
	tableSlotsMinBits = 3
	tableSlotsMaxBits = 11 // ActiveMax
	tableClasses      = tableSlotsMaxBits - tableSlotsMinBits + 1
	tablesKept        = 64 // idle tables of each size that a pool keeps
)

// Assembler reassembles the fragments of one peer from chunks. An Assembler without unfinished
// fragments takes a few words of memory. An Assembler with unfinished fragments has a table of 8 to
// ActiveMax entries. The table index of a fragment is its id modulo the length of the table. A zero
// Assembler must be initialised by Init before use.
type Assembler struct {
	pool        *Pool
	slots       []*Message
	starter     *Message // the fragment whose memory is only large enough for its first packet
	activeBytes int64
	emptyBytes  int64 // of activeBytes, memory that no chunk has filled
	active      int
}

// Init makes the Assembler ready for a peer. The caller must call Drop before it calls Init again.
func (a *Assembler) Init(pool *Pool) { *a = Assembler{pool: pool} }

// Active returns the number of unfinished fragments.
func (a *Assembler) Active() int { return a.active }

// ActiveBytes returns the capacity of the buffers of all unfinished fragments in bytes.
func (a *Assembler) ActiveBytes() int64 { return a.activeBytes }

// ArrivedBytes returns how many bytes of the buffers of unfinished fragments were filled by
// received chunks.
func (a *Assembler) ArrivedBytes() int64 { return a.activeBytes - a.emptyBytes }

// Add copies the payload of the chunk with header h to the buffer of its fragment. Decode must have
// accepted the header, and the chunk must not belong to a put. If the chunk completes the fragment,
// Add returns the message, and the caller owns the message until Release. The argument inOrder of
// Add is true if the packet has the next sequence number of the peer.
//
// After an error, the Assembler is unchanged. The caller must not acknowledge the packet if
// Add returns an error. ErrBudget and ErrSlot are temporary. Any error of Add other than
// ErrBudget and ErrSlot means that the peer breaks the protocol.
//
// In each of the limits BytesMax and PeerBytesMax, the last FragBytesMax bytes are a reserve for
// fragments that arrive in order. Only a fragment whose first packet arrives in order may use the
// memory reserve. Without a memory reserve, fragments that began after a gap in the sequence could
// take all memory. The packet that fills the gap would then be refused for ever.
func (a *Assembler) Add(h *Header, payload []byte, inOrder bool) (*Message, error) {
	m, chunk, _, err := a.place(h, len(payload), inOrder, nil)
	if err != nil {
		return nil, err
	}
	return a.add(m, h, chunk, payload)
}

func (a *Assembler) add(m *Message, h *Header, chunk uint32, payload []byte) (*Message, error) {
	if err := m.mark(h, chunk, 1); err != nil { // never for a fragment that has just begun
		return nil, err
	}
	copy(m.mem[h.OffsetBytes:], payload)
	a.fill(m, int64(len(payload)))
	if m.missing == 0 {
		a.complete(m)
		return m, nil
	}
	return nil, nil
}

// The method place finds the fragment of a chunk of n bytes or begins a new fragment, and gives the
// fragment memory up to the end of the chunk. The argument leaving of place is a fragment whose
// memory will be released by the time at which the chunk is added, or nil.
func (a *Assembler) place(h *Header, n int, inOrder bool, leaving *Message) (
	m *Message, chunk uint32, begun bool, err error,
) {
	if chunk, err = locate(h, n); err != nil {
		return nil, 0, false, err
	}
	if m = a.find(h.FragID); m == nil {
		m, err = a.begin(h, n, inOrder, leaving)
		if errors.Is(err, ErrBudget) && inOrder && leaving != nil {
			m, err = a.beginStarter(h, n)
		}
		if err != nil {
			return nil, 0, false, err
		}
		begun = true
	}
	end := h.OffsetBytes + uint32(n)
	if int64(end) > m.roomBytes() && m.sizeBytes == h.SizeBytes && !a.growTo(m, end, n, inOrder) {
		if begun {
			a.remove(m)
			a.pool.put(m)
		}
		return nil, 0, false, ErrBudget
	}
	return m, chunk, begun, nil
}

// AddLanded works like Add for several consecutive chunks that the fabric has already written to
// the buffer of their fragment. The first chunk has payloadBytes, and the argument follow is the
// number of the other chunks. The fabric must have written the chunks to memory that Landing
// returned, and nothing else may have been written to this memory after the call of Landing.
// ErrNotBegun means that there is no unfinished fragment to which the chunks belong.
func (a *Assembler) AddLanded(h *Header, payloadBytes, follow int) (*Message, error) {
	chunk, err := locateRun(h, payloadBytes, follow)
	if err != nil {
		return nil, err
	}
	m := a.find(h.FragID)
	landedBytes := int64(payloadBytes) * int64(1+follow)
	if m == nil || m.sizeBytes == h.SizeBytes && int64(h.OffsetBytes)+landedBytes > m.roomBytes() {
		return nil, ErrNotBegun
	}
	if err := m.mark(h, chunk, 1+uint32(follow)); err != nil {
		return nil, err
	}
	a.fill(m, landedBytes)
	if m.missing == 0 {
		a.complete(m)
		return m, nil
	}
	return nil, nil
}

// BeginLanded works like AddLanded, for a fragment of which no chunk has been added yet. The fabric
// must have written the chunks to mem, which Anticipate returned, and nothing else may have been
// written to mem after the call of Anticipate. ErrNotBegun means that mem is not the buffer that
// the new fragment would get. The argument inOrder of BeginLanded and its other errors have the
// same meaning as in Add.
func (a *Assembler) BeginLanded(h *Header, payloadBytes, follow int, inOrder bool,
	mem []byte,
) (*Message, error) {
	chunk, err := locateRun(h, payloadBytes, follow)
	if err != nil {
		return nil, err
	}
	next := a.pool.idle[classOf(h.SizeBytes)]
	if chunk != 0 || a.hoards() || next == nil || len(mem) == 0 || &next.mem[0] != &mem[0] {
		return nil, ErrNotBegun
	}
	m, err := a.begin(h, payloadBytes, inOrder, nil)
	if err != nil {
		return nil, err
	}
	if err := m.mark(h, 0, 1+uint32(follow)); err != nil {
		return nil, err
	}
	a.fill(m, int64(payloadBytes)*int64(1+follow))
	if m.missing > 0 {
		return nil, nil
	}
	a.complete(m)
	return m, nil
}

// Anticipate works like Landing, for a fragment that has not begun. Anticipate returns memory of
// the idle buffer that the next fragment with the given size and chunk sizes will get, or nil if
// there is no such buffer. The caller may write to that memory until a fragment of any peer begins,
// or until a message is released.
func (a *Assembler) Anticipate(sizeBytes uint32, firstBytes, chunkBytes uint16,
	maxBytes int,
) []byte {
	m := a.pool.idle[classOf(sizeBytes)]
	if m == nil || a.hoards() {
		return nil
	}
	n := grid{uint32(firstBytes), uint32(chunkBytes)}.whole(sizeBytes, 0, maxBytes)
	if n == 0 {
		return nil
	}
	return m.mem[:n:n]
}

// The method whole returns the length of the whole chunks that fit in maxBytes, starting with the
// chunk at offset. If the rest of the fragment from offset on fits in maxBytes, whole returns the
// length of that rest.
func (g grid) whole(sizeBytes, offset uint32, maxBytes int) uint64 {
	rest, limit := uint64(sizeBytes-offset), uint64(max(maxBytes, 0))
	if rest <= limit {
		return rest
	}
	end := uint64(offset) + limit
	if end < uint64(g.first) {
		return 0
	}
	end -= (end - uint64(g.first)) % uint64(g.chunk)
	return max(end, uint64(offset)) - uint64(offset)
}

// Landing returns memory of an unfinished fragment, to which the fabric may write the payloads of
// the next chunks directly. The memory that Landing returns begins at offset, ends before the first
// chunk that was already received, contains only whole chunks, and has at most maxBytes. Landing
// returns nil if there is no unfinished fragment with the id fragID, or if no chunk of the fragment
// begins at offset. Landing returns nil, too, if the chunk at offset was already received, or if
// maxBytes or the fragment's memory is too small for the chunk.
//
// The caller may write to the memory that Landing returned until one of the chunks in it is added,
// or until the fragment is complete or discarded. Bytes that the fabric has written for a wrong
// packet never become part of a message, because Add overwrites these bytes when the right chunk
// arrives.
func (a *Assembler) Landing(fragID, offset uint32, maxBytes int) []byte {
	m := a.find(fragID)
	if m == nil || offset >= m.sizeBytes || int64(offset) >= m.roomBytes() {
		return nil
	}
	maxBytes = min(maxBytes, int(m.roomBytes()-int64(offset)))
	chunk := m.grid.index(offset)
	if uint64(offset) != m.grid.start(chunk) {
		return nil
	}
	limit := m.grid.whole(m.sizeBytes, offset, maxBytes)
	if limit == 0 {
		return nil
	}
	last := m.grid.index(offset + uint32(limit-1))
	gap := m.gap(chunk, last-chunk+1)
	if gap == 0 {
		return nil
	}
	end := min(m.grid.start(chunk+gap), uint64(offset)+limit)
	return m.mem[offset:end:end]
}

// locate checks whether a chunk of n bytes has a valid position and size in its fragment, and
// returns the index of the chunk.
func locate(h *Header, n int) (chunk uint32, err error) {
	if h.Kind != KindChunk || h.Flags&FlagPut != 0 {
		return 0, ErrKind
	}
	chunk, ok := gridOf(h).locate(h.SizeBytes, h.OffsetBytes, n)
	if !ok {
		return 0, ErrBounds
	}
	return chunk, nil
}

// locateRun works like locate, for a chunk that is followed by more chunks of the same size, whose
// number is the argument follow.
func locateRun(h *Header, n, follow int) (chunk uint32, err error) {
	chunk, err = locate(h, n)
	if err == nil && (int64(h.OffsetBytes)+int64(n)*int64(1+follow) > int64(h.SizeBytes) ||
		follow > 0 && n != int(h.ChunkBytes)) {
		err = ErrBounds
	}
	return chunk, err
}

// contradicts reports whether the fragment size, the tag or the chunk sizes in h differ from
// earlier chunks of the same fragment.
func (m *Message) contradicts(h *Header) bool {
	return m.sizeBytes != h.SizeBytes || m.Tag != h.Tag || m.grid != gridOf(h)
}

// The method mark records that consecutive chunks (the argument count) have arrived, starting with
// the chunk of the given index.
func (m *Message) mark(h *Header, chunk, count uint32) error {
	if m.contradicts(h) {
		return ErrMismatch
	}
	if word, bit := &m.have[chunk>>6], uint64(1)<<(chunk&63); count == 1 { // the most frequent case
		if *word&bit != 0 {
			return ErrOverlap
		}
		*word |= bit
		m.missing--
		return nil
	}
	if m.gap(chunk, count) < count {
		return ErrOverlap
	}
	m.missing -= count
	for count > 0 {
		shift := chunk & 63
		n := min(count, 64-shift)
		m.have[chunk>>6] |= (1<<n - 1) << shift
		chunk += n
		count -= n
	}
	return nil
}

// The method gap returns how many consecutive chunks, starting with the given index, have not
// arrived. The result is at most limit.
func (m *Message) gap(chunk, limit uint32) uint32 {
	word := chunk >> 6
	n := uint32(bits.TrailingZeros64(m.have[word] >> (chunk & 63)))
	if n < 64 {
		return min(n, limit)
	}
	for n = 64 - chunk&63; n < limit; n += 64 {
		word++
		if w := m.have[word]; w != 0 {
			n += uint32(bits.TrailingZeros64(w))
			break
		}
	}
	return min(n, limit)
}

func (a *Assembler) complete(m *Message) {
	a.remove(m)
	m.state = messageWhole
	if a.pool.favourite == m {
		a.pool.favourite = nil
	}
	m.Bytes = m.mem[:m.sizeBytes:m.sizeBytes]
}

func (a *Assembler) find(fragID uint32) *Message {
	if len(a.slots) == 0 {
		return nil
	}
	m := a.slots[int(fragID)&(len(a.slots)-1)]
	if m == nil || m.fragID != fragID {
		return nil
	}
	return m
}

// The method enter puts a fragment into the Assembler's table. If necessary, enter enlarges the
// table to 2^slotBits entries.
func (a *Assembler) enter(m *Message, h *Header, slotBits int) {
	if len(a.slots) < 1<<slotBits {
		a.grow(slotBits)
	}
	a.slots[int(h.FragID)&(len(a.slots)-1)] = m
	a.active++
	a.activeBytes += m.capBytes()
	a.addEmpty(m.emptyBytes())
}

// slotBits returns the base-2 logarithm of the size of the smallest table in which the entry for
// the new fragment is free. The result of slotBits is at least the logarithm of the present table
// size, and exceeds tableSlotsMaxBits if no table is large enough.
func (a *Assembler) slotBits(fragID uint32) int {
	if len(a.slots) == 0 {
		return tableSlotsMinBits
	}
	now := bits.TrailingZeros(uint(len(a.slots)))
	other := a.slots[int(fragID)&(len(a.slots)-1)]
	if other == nil {
		return now
	}
	return bits.TrailingZeros32(fragID^other.fragID) + 1
}

func (a *Assembler) grow(slotBits int) {
	old := a.slots
	a.slots = a.pool.getTable(slotBits)
	for _, m := range old {
		if m != nil {
			a.slots[int(m.fragID)&(len(a.slots)-1)] = m
		}
	}
	if len(old) != 0 {
		clear(old)
		a.pool.putTable(old)
	}
}

func (a *Assembler) remove(m *Message) {
	a.slots[int(m.fragID)&(len(a.slots)-1)] = nil
	if a.starter == m {
		a.starter = nil
	}
	a.activeBytes -= m.capBytes()
	a.addEmpty(-m.emptyBytes())
	a.active--
	if a.active == 0 {
		a.pool.putTable(a.slots)
		a.slots = nil
	}
}

// Drop discards all unfinished fragments, because the peer is gone. Messages that Add has already
// returned stay valid until Release. After Drop, the Assembler may be used for another peer.
func (a *Assembler) Drop() {
	for i := 0; a.active > 0; i++ {
		if m := a.slots[i]; m != nil {
			a.remove(m)
			a.pool.put(m)
		}
	}
}

// Forget discards the unfinished fragment with the given id, if there is one, because the sender
// has cancelled the fragment.
func (a *Assembler) Forget(fragID uint32) {
	if m := a.find(fragID); m != nil {
		a.remove(m)
		a.pool.put(m)
	}
}

func (p *Pool) getTable(slotBits int) []*Message {
	kept := &p.tables[slotBits-tableSlotsMinBits]
	if n := len(*kept); n > 0 {
		t := (*kept)[n-1]
		(*kept)[n-1] = nil
		*kept = (*kept)[:n-1]
		return t
	}
	return make([]*Message, 1<<slotBits)
}

// putTable returns a table of unfinished fragments to the pool. All entries of the table must be
// nil.
func (p *Pool) putTable(t []*Message) {
	kept := &p.tables[bits.TrailingZeros(uint(len(t)))-tableSlotsMinBits]
	if len(*kept) < tablesKept {
		*kept = append(*kept, t)
	}
}

// Check returns an error for the first invariant of the Assembler that does not hold.
func (a *Assembler) Check() error {
	if a.active == 0 && len(a.slots) == 0 && a.activeBytes == 0 && a.emptyBytes == 0 {
		return nil
	}
	active, bytes, empty := 0, int64(0), int64(0)
	for i, m := range a.slots {
		if m == nil {
			continue
		}
		active++
		bytes += m.capBytes()
		empty += m.emptyBytes()
		if m.starter != (m == a.starter) {
			return fmt.Errorf("frag: fragment %d has one packet's memory: %t", m.fragID, m.starter)
		}
		if len(m.have) != m.wordsOfRoom() {
			return fmt.Errorf("frag: fragment %d with memory of %d bytes has %d words of bits", m.fragID,
				m.roomBytes(), len(m.have))
		}
		if m.state != messageAssembling || m.missing == 0 || int(m.fragID)&(len(a.slots)-1) != i {
			return fmt.Errorf("frag: slot %d holds fragment %d, state %d, %d chunks missing", i, m.fragID,
				m.state, m.missing)
		}
	}
	if empty != a.emptyBytes {
		return fmt.Errorf("frag: %d bytes are empty, %d counted", empty, a.emptyBytes)
	}
	if active != a.active || active == 0 || bytes != a.activeBytes || len(a.slots) > ActiveMax ||
		bytes > a.pool.cfg.PeerBytesMax {
		return fmt.Errorf("frag: table of %d has %d fragments of %d bytes, %d of %d counted",
			len(a.slots), active, bytes, a.active, a.activeBytes)
	}
	return nil
}
