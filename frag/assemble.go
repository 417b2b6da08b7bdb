package frag

import (
	"errors"
	"fmt"
	"math/bits"
)

// Errors of Add, AddLanded and BeginLanded beside ErrKind and ErrBounds, returned unwrapped.
var (
	// ErrMismatch: size, tag or grid differ from those of the fragment's earlier chunks.
	ErrMismatch = errors.New("frag: chunk contradicts its fragment")
	// ErrOverlap: the fragment already has this chunk.
	ErrOverlap = errors.New("frag: chunk received before")
	// ErrTooLarge: a fragment larger than PoolConfig.FragBytesMax.
	ErrTooLarge = errors.New("frag: fragment exceeds the limit")
	// ErrSlot: too many unfinished fragments; another one holds the place of this one.
	ErrSlot = errors.New("frag: too many unfinished fragments")
	// ErrNotBegun: what has landed does not stand in the memory of its fragment.
	ErrNotBegun = errors.New("frag: landed chunk is not in its fragment's memory")
	// ErrBudget: PoolConfig.BytesMax or PeerBytesMax is reached. The same packet may be taken
	// later.
	ErrBudget = errors.New("frag: reassembly memory exhausted")
)

// ActiveMax is the largest number of fragments that one Assembler has under way: half of the
// largest window of the model, for a fragment in chunks takes at least two packets.
const ActiveMax = 2048

const (
	tableSlotsMinBits = 3
	tableSlotsMaxBits = 11 // ActiveMax
	tableClasses      = tableSlotsMaxBits - tableSlotsMinBits + 1
	tablesKept        = 64 // idle tables of each size that a pool keeps
)

// Assembler puts the chunks of one peer together. While it has no unfinished fragment it is only
// these few words; else a table of 8 to ActiveMax slots, slot = fragID modulo the table's length.
// The zero value must be given to Init first.
type Assembler struct {
	pool        *Pool
	slots       []*Message
	starter     *Message // the fragment that has the memory of its first packet alone
	activeBytes int64
	emptyBytes  int64 // of these, such that nothing has come for
	active      int
}

// Init makes the assembler ready for a peer. Unfinished fragments of an earlier use must have been
// dropped.
func (a *Assembler) Init(pool *Pool) { *a = Assembler{pool: pool} }

// Active returns the number of unfinished fragments.
func (a *Assembler) Active() int { return a.active }

// ActiveBytes returns the capacity of the buffers of the unfinished fragments.
func (a *Assembler) ActiveBytes() int64 { return a.activeBytes }

// ArrivedBytes returns how much of that memory has been filled.
func (a *Assembler) ArrivedBytes() int64 { return a.activeBytes - a.emptyBytes }

// Add takes the chunk with header h, as decoded and not a put, and its payload, which it copies.
// When that makes its fragment whole, the message is returned and is the caller's until its
// Release. inOrder says that the packet is the next one of the peer's sequence, with nothing
// missing before it.
//
// An error means that the packet was refused: nothing has changed, and the caller must not count it
// as received. ErrBudget and ErrSlot are temporary; with any other the peer breaks the protocol.
//
// The last FragBytesMax bytes of either budget go only to a fragment whose first packet arrives in
// order. Without this reserve, fragments that were started behind a gap could take all the memory,
// the packet in the gap would be refused for want of it, and the sender's window, which cannot move
// past that packet, would keep the others from ever being finished. With it, and a sender that ends
// one fragment before it starts the next, the packet in the gap always gets memory in the end.
func (a *Assembler) Add(h *Header, payload []byte, inOrder bool) (*Message, error) {
	m, chunk, _, err := a.place(h, len(payload), inOrder, nil)
	if err != nil {
		return nil, err
	}
	return a.add(m, h, chunk, payload)
}

// add copies a chunk to its place in its fragment.
func (a *Assembler) add(m *Message, h *Header, chunk uint32, payload []byte) (*Message, error) {
	if err := m.mark(h, chunk, 1); err != nil { // never of one that has just begun
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

// place finds or begins the fragment of a chunk of n bytes, and gives it memory up to its end. The
// memory of leaving, if that is one, will be free before the chunk is added.
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

// AddLanded is Add for a chunk whose payload, of payloadBytes, stands in its place already, and for
// so many that follow it (Followers): they were written to what Landing returned, and nothing else
// since. ErrNotBegun: the fragment is not, or no longer, under way.
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

// BeginLanded is AddLanded for the first chunks of a fragment that begins with them: they were
// written to mem, which Anticipate returned, and nothing else since. ErrNotBegun: that is not where
// the fragment would be put together. inOrder and the other errors are those of Add.
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

// Anticipate is Landing for a fragment that has not begun: memory of the idle buffer that the next
// one of sizeBytes, with that grid, will get, nil if there is none. It may be written until a
// fragment, of any peer, begins or a message is released.
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

// whole is how many bytes from the chunk at offset on are to land: at most maxBytes, then of whole
// chunks.
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

// Landing returns memory of an unfinished fragment for what comes next: the places of whole chunks
// from offset on, up to the first one that was received already, and of at most maxBytes. It is nil
// if there is no such fragment, or no room: offset is no chunk's or past the end, that chunk was
// received, maxBytes is too small for it.
//
// The memory may be written until one of its chunks is added, or the fragment is dropped, forgotten
// or whole. What is written there never shows: a fragment is whole only when each of its chunks was
// added, so one that landed wrongly is written over by Add.
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

// locate checks whether a chunk with n bytes lies on its grid, and returns its index.
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

// locateRun is locate for a chunk with so many behind it that are as long.
func locateRun(h *Header, n, follow int) (chunk uint32, err error) {
	chunk, err = locate(h, n)
	if err == nil && (int64(h.OffsetBytes)+int64(n)*int64(1+follow) > int64(h.SizeBytes) ||
		follow > 0 && n != int(h.ChunkBytes)) {
		err = ErrBounds
	}
	return chunk, err
}

// contradicts says whether a chunk says something else of its fragment than those before it.
func (m *Message) contradicts(h *Header) bool {
	return m.sizeBytes != h.SizeBytes || m.Tag != h.Tag || m.grid != gridOf(h)
}

// mark notes that chunks from one on have come.
func (m *Message) mark(h *Header, chunk, count uint32) error {
	if m.contradicts(h) {
		return ErrMismatch
	}
	if word, bit := &m.have[chunk>>6], uint64(1)<<(chunk&63); count == 1 { // as it often is
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
		m.have[chunk>>6] |= (1<<n - 1) << shift // of all 64, the shift leaves 0, and 0-1 all of them
		chunk += n
		count -= n
	}
	return nil
}

// gap returns how many of limit chunks from the given one on follow each other and have not come.
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

// complete takes a fragment that has all its chunks out of the table.
func (a *Assembler) complete(m *Message) {
	a.remove(m)
	m.state = messageWhole
	if a.pool.favourite == m {
		a.pool.favourite = nil
	}
	m.Bytes = m.mem[:m.sizeBytes:m.sizeBytes]
}

// find returns the unfinished fragment with this id, or nil.
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

// enter puts a fragment into the table, which is to have 2^slotBits slots.
func (a *Assembler) enter(m *Message, h *Header, slotBits int) {
	if len(a.slots) < 1<<slotBits {
		a.grow(slotBits)
	}
	a.slots[int(h.FragID)&(len(a.slots)-1)] = m
	a.active++
	a.activeBytes += m.capBytes()
	a.addEmpty(m.emptyBytes())
}

// slotBits returns the logarithm of the smallest table, not below the present one, in which the
// new id has a slot of its own; more than tableSlotsMaxBits if there is none. Only the fragment
// that holds the slot now can be in the way in a larger table: others differ from the new id in
// the lower bits already.
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

// grow moves the fragments to a table of 2^slotBits slots.
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

// remove takes a fragment out of the table, and gives an empty table back.
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

// Drop forgets all unfinished fragments: the peer is gone. Messages already returned by Add stay
// valid until their Release. The assembler may be used again.
func (a *Assembler) Drop() {
	for i := 0; a.active > 0; i++ {
		if m := a.slots[i]; m != nil {
			a.remove(m)
			a.pool.put(m)
		}
	}
}

// Forget drops one unfinished fragment, if there is one of that id: its sender has given it up.
func (a *Assembler) Forget(fragID uint32) {
	if m := a.find(fragID); m != nil {
		a.remove(m)
		a.pool.put(m)
	}
}

// getTable returns an empty table of 2^slotBits slots.
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

// putTable takes back a table, all of whose slots are nil.
func (p *Pool) putTable(t []*Message) {
	kept := &p.tables[bits.TrailingZeros(uint(len(t)))-tableSlotsMinBits]
	if len(*kept) < tablesKept {
		*kept = append(*kept, t)
	}
}

// Check reports the first broken invariant. It is for tests and simulators.
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
