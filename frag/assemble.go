package frag

import (
	"errors"
	"fmt"
	"math/bits"
)

// The methods Add, AddLanded and BeginLanded return one of the errors below, ErrKind or ErrBounds,
// and do not wrap the error.
var (
	// ErrMismatch means that the fragment size, the tag or the chunk sizes in a chunk's header differ
	// from those of earlier chunks of the same fragment.
	ErrMismatch = errors.New("frag: chunk contradicts its fragment")
	// ErrOverlap means that the chunk was already received.
	ErrOverlap = errors.New("frag: chunk received before")
	// ErrTooLarge means that the size of a fragment exceeds PoolConfig.FragBytesMax.
	ErrTooLarge = errors.New("frag: fragment exceeds the limit")
	// ErrSlot means that the peer has too many unfinished fragments.
	ErrSlot = errors.New("frag: too many unfinished fragments")
	// ErrNotBegun means that a chunk is not in the buffer of its fragment, although the fabric should
	// have written the chunk directly to this buffer.
	ErrNotBegun = errors.New("frag: landed chunk is not in its fragment's memory")
	// ErrBudget means that the reassembly memory reached its limit, BytesMax or PeerBytesMax of
	// PoolConfig. After ErrBudget, the caller may repeat the call of Add with the same packet later.
	ErrBudget = errors.New("frag: reassembly memory exhausted")
	// ErrShare is an ErrBudget that the peer itself has caused, so that it would not help to free
	// memory of other peers. An ErrShare means that the peer has reached PeerBytesMax or its limit on
	// unfilled memory (see emptyPart), or that the chunk ends too far beyond the received bytes of its
	// fragment.
	ErrShare = fmt.Errorf("%w by the peer itself", ErrBudget)
)

// Scarce reports whether an error of Add or Reserve means that all peers together have used up the
// pool's memory. For an ErrShare, which one peer by itself has caused, Scarce returns false.
func Scarce(err error) bool { return errors.Is(err, ErrBudget) && !errors.Is(err, ErrShare) }

// ActiveMax is the largest number of unfinished fragments of one Assembler. ActiveMax is half of
// the default send window in packets, because a fragment that is divided into chunks takes at least
// two packets.
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
// Assembler must not be used before a call of Init.
type Assembler struct {
	pool   *Pool
	slots  []*Message // nil if there are no unfinished fragments
	*tally            // nil before the first chunk
}

// The type "tally" holds the counts of an Assembler's unfinished fragments. It is allocated at the
// first chunk of a peer.
type tally struct {
	activeBytes int64
	emptyBytes  int64 // of activeBytes, memory that no chunk has filled
	// The field "favourite" of a tally is the fragment that has last begun or grown in the reserve of
	// PeerBytesMax (its last FragBytesMax bytes) by a chunk in order. Until the favourite fragment
	// ends, it may grow in the reserve even by a chunk out of order.
	favourite *Message
	// allowanceBytes is the number of bytes by which the peer's unfilled memory (see emptyPart) may
	// exceed growFactor times PoolConfig.GrowBytes.
	allowanceBytes int32
	active         int16 // at most ActiveMax
	starter        bool  // there is a fragment that beginStarter has begun
}

// Init makes the Assembler ready for a peer. Between two calls of Init, the caller must call Drop.
func (a *Assembler) Init(pool *Pool) { *a = Assembler{pool: pool} }

// The method "need" allocates the Assembler's tally, unless the Assembler already has one.
func (a *Assembler) need() {
	if a.tally == nil {
		a.tally = new(tally)
	}
}

// Active returns the number of unfinished fragments.
func (a *Assembler) Active() int {
	if len(a.slots) == 0 {
		return 0
	}
	return int(a.active)
}

// ActiveBytes returns the total capacity, in bytes, of the buffers of all unfinished fragments.
func (a *Assembler) ActiveBytes() int64 {
	if len(a.slots) == 0 {
		return 0
	}
	return a.activeBytes
}

// ArrivedBytes returns how many bytes of the unfinished fragments have been received.
func (a *Assembler) ArrivedBytes() int64 {
	if len(a.slots) == 0 {
		return 0
	}
	return a.activeBytes - a.emptyBytes
}

// Add copies the payload of the chunk with header h to the buffer of its fragment. The caller may
// call Add only with a header h that Decode has accepted and that has no FlagPut. If the chunk
// completes the fragment, Add returns the message, which the caller must release by
// Message.Release. While chunks of the fragment are missing, Add returns nil instead of a message.
// The argument inOrder of Add says whether the packet is the next in sequence from the peer.
//
// An error of Add leaves the Assembler unchanged. The caller must not acknowledge the packet if Add
// returns an error. The errors ErrBudget and ErrSlot of Add are temporary. All errors of Add except
// ErrBudget and ErrSlot mean that the peer violates the protocol.
//
// The last FragBytesMax bytes below each memory limit (BytesMax and PeerBytesMax) are reserved for
// fragments whose packets arrive in order. A fragment may begin in the reserved memory only by a
// packet that arrives in order. A packet out of order may enlarge a fragment in the reserved memory
// only if the fragment has begun or grown there before by a packet in order. Without reserved
// memory, fragments that begin after a lost packet could take all memory, so that the receiver
// would refuse the retransmission of the lost packet for ever.
func (a *Assembler) Add(h *Header, payload []byte, inOrder bool) (*Message, error) {
	m, chunk, _, err := a.place(h, len(payload), inOrder, nil)
	if err != nil {
		return nil, err
	}
	return a.add(m, h, chunk, payload)
}

func (a *Assembler) add(m *Message, h *Header, chunk uint32, payload []byte) (*Message, error) {
	if err := m.mark(h, chunk); err != nil { // never for a fragment that has just begun
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

// The method "place" finds or creates the fragment of a received chunk of n bytes, and enlarges the
// fragment's buffer if the chunk does not fit into it. If the argument "leaving" of the method
// "place" is not nil, it is a fragment that the caller will release before it adds the chunk.
func (a *Assembler) place(h *Header, n int, inOrder bool, leaving *Message) (
	m *Message, chunk uint32, begun bool, err error,
) {
	if chunk, err = locate(h, n); err != nil {
		return nil, 0, false, err
	}
	if m = a.find(h.FragID); m == nil {
		m, err = a.begin(h, n, inOrder, leaving)
		if errors.Is(err, ErrBudget) && inOrder && leaving != nil {
			m = a.beginStarter(h, n)
		}
		if m == nil {
			return nil, 0, false, err
		}
		begun, err = true, nil
	}
	end := h.OffsetBytes + uint32(n)
	if int64(end) > m.roomBytes() && !m.contradicts(h) {
		err = a.growTo(m, end, n, inOrder)
	}
	if err != nil && begun {
		a.discard(m)
	}
	return m, chunk, begun, err
}

// AddLanded works like Add for a chunk that the fabric has already written to the reassembly buffer
// of its fragment. The payload of the chunk has payloadBytes bytes. The caller may call AddLanded
// only if the fabric has written the chunk to memory that ChunkMemory has returned. AddLanded
// returns ErrNotBegun if the chunk does not belong to an unfinished fragment, or if the fragment's
// buffer is too short for the chunk.
func (a *Assembler) AddLanded(h *Header, payloadBytes int) (*Message, error) {
	chunk, err := locate(h, payloadBytes)
	if err != nil {
		return nil, err
	}
	m, landedBytes := a.find(h.FragID), int64(payloadBytes)
	if m == nil || m.sizeBytes == h.SizeBytes && int64(h.OffsetBytes)+landedBytes > m.roomBytes() {
		return nil, ErrNotBegun
	}
	if err := m.mark(h, chunk); err != nil {
		return nil, err
	}
	a.fill(m, landedBytes)
	if m.missing == 0 {
		a.complete(m)
		return m, nil
	}
	return nil, nil
}

// BeginLanded works like AddLanded, for the first chunk that is added to a fragment. The argument
// "mem" of BeginLanded is memory that Anticipate has returned, and to which the fabric has written
// the fragment's first chunk. BeginLanded returns ErrNotBegun if the memory "mem" is not the buffer
// that the new fragment would get. The argument inOrder of BeginLanded, and all errors except
// ErrNotBegun, have the same meaning as in Add.
func (a *Assembler) BeginLanded(h *Header, payloadBytes int, inOrder bool, mem []byte,
) (*Message, error) {
	chunk, err := locate(h, payloadBytes)
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
	if err := m.mark(h, 0); err != nil {
		return nil, err
	}
	a.fill(m, int64(payloadBytes))
	if m.missing > 0 {
		return nil, nil
	}
	a.complete(m)
	return m, nil
}

// Anticipate works like ChunkMemory, for a fragment of which no chunk has arrived. Anticipate
// returns memory of the idle buffer that the next fragment of the given size will get, or nil if
// the pool has no idle buffer of this size. The fabric may write to the memory that Anticipate
// returned until the next time that the pool allocates or takes back a reassembly buffer for any
// peer.
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

// The method "whole" rounds maxBytes down to a number of whole chunks, starting with the chunk at
// the given offset. If the whole rest of the fragment, from the given offset on, fits in maxBytes,
// the method "whole" returns the length of this rest.
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

// ChunkMemory returns a part of an unfinished fragment's buffer, to which the fabric may write the
// payloads of the next chunks without a copy. The memory that ChunkMemory returns begins at the
// given offset, has room for whole chunks with a total size of at most maxBytes, and ends before
// the next chunk that was already received. ChunkMemory returns nil if no unfinished fragment has
// the id fragID, or if no chunk of the fragment begins at the given offset. ChunkMemory also
// returns nil if the chunk at the given offset was already received, or does not fit in maxBytes or
// in the fragment's buffer.
//
// The fabric may write to the memory that ChunkMemory returned until a chunk in this memory is
// added, or until the fragment is complete or discarded. If the fabric writes the payload of a
// wrong packet to the memory of a chunk, Add later overwrites this payload with that of the right
// packet.
func (a *Assembler) ChunkMemory(fragID, offset uint32, maxBytes int) []byte {
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

// The method "contradicts" reports whether the fragment size, the tag or the chunk sizes in the
// header h differ from those of earlier chunks of the same fragment.
func (m *Message) contradicts(h *Header) bool {
	return m.sizeBytes != h.SizeBytes || m.Tag != h.Tag || m.grid != gridOf(h)
}

// The method "mark" records the arrival of the chunk with the given index.
func (m *Message) mark(h *Header, chunk uint32) error {
	if m.contradicts(h) {
		return ErrMismatch
	}
	word, bit := &m.have[chunk>>6], uint64(1)<<(chunk&63)
	if *word&bit != 0 {
		return ErrOverlap
	}
	*word |= bit
	m.missing--
	return nil
}

// The method "gap" returns how many consecutive chunks are missing, starting with the chunk of the
// given index. The result of the method "gap" is limited to the argument "limit".
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

// The method "enter" puts a new fragment into the Assembler's table of unfinished fragments. If the
// Assembler's table has less than 2^slotBits entries, the method "enter" enlarges the table to
// 2^slotBits entries.
func (a *Assembler) enter(m *Message, h *Header, slotBits int) {
	if len(a.slots) < 1<<slotBits {
		a.grow(slotBits)
	}
	a.slots[int(h.FragID)&(len(a.slots)-1)] = m
	a.active++
	a.activeBytes += m.capBytes()
	a.addEmpty(m.emptyBytes())
}

// slotBits returns the base-2 logarithm of the table size that a new fragment requires. The
// required table size is the smallest one, not below the present size, at which no existing
// fragment has the table index of the new fragment. If two fragments would have the same table
// index even in the largest table, slotBits returns a number above tableSlotsMaxBits.
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
	if m.starter {
		a.starter = false
	}
	if a.favourite == m {
		a.favourite = nil
	}
	if a.pool.favourite == m {
		a.pool.favourite = nil
	}
	a.activeBytes -= m.capBytes()
	a.addEmpty(-m.emptyBytes())
	a.active--
	if a.active == 0 {
		a.pool.putTable(a.slots)
		a.slots = nil
	}
}

// Drop discards all unfinished fragments when the connection to the peer has ended. Messages that
// Add has already returned stay valid after Drop. After Drop, the caller may use the Assembler for
// a new peer.
func (a *Assembler) Drop() {
	if a.tally == nil {
		return
	}
	for i := 0; a.active > 0; i++ {
		if m := a.slots[i]; m != nil {
			a.remove(m)
			a.pool.put(m)
		}
	}
	a.allowanceBytes = 0
}

// Forget discards the unfinished fragment with the id fragID, and does nothing if no unfinished
// fragment has this id. The caller calls Forget when the sender has cancelled the fragment.
func (a *Assembler) Forget(fragID uint32) {
	if m := a.find(fragID); m != nil {
		a.discard(m)
	}
}

// Check returns an error for the first invariant of the Assembler that does not hold, or nil if all
// of them hold.
func (a *Assembler) Check() error {
	if a.tally == nil {
		return nil
	}
	if f := a.favourite; f != nil && a.find(f.fragID) != f {
		return fmt.Errorf("frag: fragment %d has the peer's reserve, and is not unfinished", f.fragID)
	}
	if a.active == 0 && len(a.slots) == 0 && a.activeBytes == 0 && a.emptyBytes == 0 {
		return nil
	}
	active, starters, bytes, empty := 0, 0, int64(0), int64(0)
	for i, m := range a.slots {
		if m == nil {
			continue
		}
		active++
		bytes += m.capBytes()
		empty += m.emptyBytes()
		if m.starter {
			starters++
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
	if starters > 1 || a.starter != (starters == 1) {
		return fmt.Errorf("frag: %d fragments have one packet's memory: %t", starters, a.starter)
	}
	if empty != a.emptyBytes {
		return fmt.Errorf("frag: %d bytes are empty, %d counted", empty, a.emptyBytes)
	}
	if active != int(a.active) || active == 0 || bytes != a.activeBytes || len(a.slots) > ActiveMax ||
		bytes > a.pool.cfg.PeerBytesMax {
		return fmt.Errorf("frag: table of %d has %d fragments of %d bytes, %d of %d counted",
			len(a.slots), active, bytes, a.active, a.activeBytes)
	}
	return nil
}
