package frag

// The code in this file decides how much reassembly memory a fragment gets, and when. If the first
// buffer of a fragment is too small for the whole fragment, the buffer is enlarged later.
//
// Each memory limit (BytesMax of the pool, and PeerBytesMax of each peer) has a memory reserve,
// which is the last FragBytesMax bytes below the limit. Because of its memory reserve, the fragment
// that uses the reserve can be completed as soon as other fragments that need no more memory have
// ended. Only one fragment of all peers at a time (Pool.favourite) may be enlarged into the reserve
// of BytesMax. Only the peer's first unfinished fragment may be enlarged into the reserve of
// PeerBytesMax. This is the fragment with the next packet in sequence, because a correct sender
// sends no chunk of a fragment before all chunks of earlier fragments. A fragment that uses only
// the reserve of its peer does not keep the fragments of other peers out of the reserve of
// BytesMax.

// Unfilled memory is memory that is allocated for the fragments of a peer, but not yet filled by
// received chunks. Each peer has a limit on its unfilled memory. A peer's limit on unfilled memory
// is 1/emptyPart of the rest of the pool's memory, which is BytesMax minus the memory reserve and
// minus the unfilled memory of all other peers.
const emptyPart = 16

// beginLeast is the smallest size, in bytes, of the first buffer of a new fragment whose peer has
// reached its limit on unfilled memory.
const beginLeast = 8 << 10

// emptyBytes returns how many bytes of the fragment's buffer no chunk has filled yet.
func (m *Message) emptyBytes() int64 {
	if m.starter {
		return 0
	}
	return m.capBytes() - m.arrivedBytes
}

// The method "fill" records that a number of bytes of the fragment has arrived.
func (a *Assembler) fill(m *Message, bytes int64) {
	before := m.emptyBytes()
	m.arrivedBytes += bytes
	a.addEmpty(m.emptyBytes() - before)
	a.allow(allowanceFactor * bytes)
}

// The allowance of a peer (Assembler.allowanceBytes) is the number of bytes by which the peer's
// unfilled memory may exceed growFactor times PoolConfig.GrowBytes. Each byte of a chunk that
// arrives raises the allowance by allowanceFactor, up to allowanceMax. When a fragment is discarded
// before all of its memory is filled by chunks, the size of the unfilled part is subtracted from
// the peer's allowance, which can become negative. Because of the allowance, a peer can make the
// module allocate at most a constant plus a multiple of the bytes that the peer sends.
const (
	allowanceFactor = 16
	allowanceMax    = 64 << 20
	allowanceMin    = -1 << 30
)

// The method "allow" adds a number of bytes, which may be negative, to the peer's allowance for
// memory that no chunk has filled.
func (a *Assembler) allow(bytes int64) {
	a.allowanceBytes = int32(min(max(int64(a.allowanceBytes)+bytes, allowanceMin), allowanceMax))
}

// The end of a chunk must not be too far ahead of the received bytes of its fragment. The largest
// permitted end of a chunk is growFactor times the number of arrived bytes of its fragment, plus
// aheadLeast, plus the peer's allowance (but at most aheadMost).
const (
	aheadLeast = 1 << 20
	aheadMost  = 16 << 20
)

// The method "far" reports whether a chunk of n bytes, which ends at the offset "end", is too far
// ahead of the received bytes of its fragment. The receiver refuses a chunk that is too far ahead,
// as if the receiver had no memory for it.
func (a *Assembler) far(arrivedBytes int64, end uint32, n int) bool {
	ahead := aheadLeast + int64(min(max(a.allowanceBytes, 0), aheadMost))
	return int64(end) > growFactor*(arrivedBytes+int64(n))+ahead
}

// The method "discard" drops an unfinished fragment, and subtracts the size of the fragment's
// memory that no chunk has filled from the peer's allowance.
func (a *Assembler) discard(m *Message) {
	a.allow(-m.emptyBytes())
	owner := a.pool.favourite
	a.remove(m)
	a.pool.put(m)
	if owner != m {
		// The discard of a fragment must not take the right to grow into the reserve of BytesMax from
		// another peer's fragment, which could otherwise lose this right again and again.
		a.pool.favourite = owner
	}
}

// addEmpty adds a number of bytes, which may be negative, to the peer's and the pool's count of
// allocated memory that no chunk has filled.
func (a *Assembler) addEmpty(bytes int64) {
	a.emptyBytes += bytes
	a.pool.emptyBytes += bytes
}

// The method "hoards" reports whether the peer exceeds the limit on allocated memory that no chunk
// has filled. Without the limit on unfilled memory, a peer could take all reassembly memory by
// sending only the first packets of many large fragments. While the unfilled memory of all other
// peers exceeds half of the pool's memory (not counting the memory reserve), a peer counts as
// exceeding its limit, even if the peer has no unfilled memory. A peer's limit on unfilled memory
// is at most growFactor times GrowBytes plus the peer's allowance.
func (a *Assembler) hoards() bool {
	a.need()
	p := a.pool
	others := p.emptyBytes - a.emptyBytes
	share := (p.cfg.BytesMax - int64(p.cfg.FragBytesMax) - others) / emptyPart
	most := min(max(share, p.cfg.GrowBytes), growFactor*p.cfg.GrowBytes+int64(a.allowanceBytes))
	return others > share*emptyPart || a.emptyBytes > most
}

// beginClass returns the size class of the first buffer of a fragment of sizeBytes whose first
// chunk to arrive has n bytes.
func (a *Assembler) beginClass(sizeBytes uint32, n int) int {
	class := a.pool.beginClass(sizeBytes)
	if a.hoards() {
		class = min(class, classOf(uint32(max(n, beginLeast))))
	}
	return class
}

// The method "begin" starts a new fragment, of which a first chunk of n bytes has arrived. The
// memory of the fragment "leaving" (an argument that may be nil) counts as free.
func (a *Assembler) begin(h *Header, n int, inOrder bool, leaving *Message) (*Message, error) {
	a.need()
	p := a.pool
	if h.SizeBytes > p.cfg.FragBytesMax {
		return nil, ErrTooLarge
	}
	slotBits := a.slotBits(h.FragID)
	if slotBits > tableSlotsMaxBits {
		return nil, ErrSlot
	}
	class := a.beginClass(h.SizeBytes, n)
	if end := h.OffsetBytes + uint32(n); int64(end) > p.capacity(class) && a.far(0, end, n) {
		return nil, ErrShare
	}
	ofPool, ofPeer := a.reserves(h.SizeBytes, class, inOrder, leaving)
	if err := a.lack(p.capacity(class), ofPool, ofPeer); err != nil {
		return nil, err
	}
	m := p.get(h, class)
	a.enter(m, h, slotBits)
	if inOrder && class < classOf(h.SizeBytes) {
		a.favour(m, leaving)
	}
	return m, nil
}

// Supersede must be called after a chunk of the fragment fragID has caused ErrSlot. Supersede
// discards the unfinished fragment in the table entry that fragment fragID needs, if the id of the
// unfinished fragment is lower than fragID. The sender has already completed or cancelled the
// discarded fragment, because the protocol permits a sender to begin fragment n only after all its
// fragments with ids up to n-ActiveMax have ended.
func (a *Assembler) Supersede(fragID uint32) {
	if len(a.slots) == 0 {
		return
	}
	m := a.slots[int(fragID)&(len(a.slots)-1)]
	if m != nil && (fragID-m.fragID)%ActiveMax == 0 && int32(m.fragID-fragID) < 0 {
		a.discard(m)
	}
}

// The method "lack" checks an allocation of the given size, after which ofPool bytes of BytesMax
// and ofPeer bytes of PeerBytesMax must be free. The method "lack" returns ErrBudget if the
// allocation would exceed BytesMax, and ErrShare if it would exceed only PeerBytesMax.
func (a *Assembler) lack(bytes, ofPool, ofPeer int64) error {
	switch p := a.pool; {
	case p.activeBytes+bytes > p.cfg.BytesMax-ofPool:
		return ErrBudget
	case a.activeBytes+bytes > p.cfg.PeerBytesMax-ofPeer:
		return ErrShare
	}
	return nil
}

// The method "reserves" returns the number of bytes of BytesMax and of PeerBytesMax that must stay
// free when a new fragment of sizeBytes gets its first buffer, which has the given size class. The
// memory of the fragment "leaving" (an argument that may be nil) counts as free.
func (a *Assembler) reserves(
	sizeBytes uint32, class int, inOrder bool, leaving *Message,
) (ofPool, ofPeer int64) {
	p := a.pool
	if !inOrder {
		ofPool, ofPeer = int64(p.cfg.FragBytesMax), int64(p.cfg.FragBytesMax)
	}
	// While one fragment has the right to grow into the reserve of BytesMax, a new fragment may begin
	// in this reserve only if its first buffer holds the whole fragment.
	if class < classOf(sizeBytes) && p.favourite != nil && p.favourite != leaving {
		ofPool = int64(p.cfg.FragBytesMax)
	}
	if leaving != nil {
		ofPool -= leaving.capBytes()
		ofPeer -= leaving.capBytes()
	}
	return ofPool, ofPeer
}

// The method "favour" is called after a fragment, whose chunk has arrived in order, has got a
// buffer. If a part of the memory reserve of PeerBytesMax is in use, the method "favour" gives the
// fragment the right to grow into this reserve. If a part of the memory reserve of BytesMax is in
// use, the method "favour" gives the fragment the right to grow into the reserve of BytesMax,
// unless a fragment other than "leaving" (an argument that may be nil) has this right.
func (a *Assembler) favour(m, leaving *Message) {
	p := a.pool
	if p.inReserve() && (p.favourite == nil || p.favourite == leaving) {
		p.favourite = m
	}
	if a.activeBytes > p.cfg.PeerBytesMax-int64(p.cfg.FragBytesMax) {
		a.favourite = m
	}
}

// The method growTo enlarges a fragment's buffer for a chunk of n bytes that ends at the offset
// "end".
func (a *Assembler) growTo(m *Message, end uint32, n int, inOrder bool) error {
	if a.far(m.arrivedBytes, end, n) ||
		a.hoards() && int64(end) > growFactor*(m.arrivedBytes+int64(n)) {
		return ErrShare
	}
	if m.starter {
		return a.settle(m, end, n, inOrder)
	}
	p, class := a.pool, m.grownClass(end, n)
	ofPool, ofPeer := int64(p.cfg.FragBytesMax), int64(p.cfg.FragBytesMax)
	if p.favourite == m || p.favourite == nil && inOrder {
		ofPool = 0
	}
	if a.favourite == m || inOrder {
		ofPeer = 0
	}
	moreBytes := p.capacity(class) - m.capBytes()
	if err := a.lack(moreBytes, ofPool, ofPeer); err != nil {
		return err
	}
	a.allow(-m.emptyBytes()) // of the buffer before
	p.enlarge(m, class)
	a.activeBytes += moreBytes
	a.addEmpty(moreBytes)
	if inOrder && class < classOf(m.sizeBytes) {
		a.favour(m, nil)
	}
	return nil
}

// beginStarter begins a fragment without checking the memory limits. If a packet contains the last
// chunk of fragment A and the first chunk of fragment B, and the memory limits leave no room for B,
// the receiver calls beginStarter for B, so that it need not refuse the packet and thereby A. The
// buffer that beginStarter allocates holds only the first chunk of fragment B, and counts towards
// no memory limit. Each peer may have at most one unfinished fragment that beginStarter has begun.
// If the peer already has an unfinished fragment that beginStarter has begun, beginStarter returns
// nil.
func (a *Assembler) beginStarter(h *Header, n int) *Message {
	if a.starter || h.OffsetBytes != 0 {
		return nil
	}
	m := &Message{pool: a.pool, starter: true, mem: make([]byte, n)}
	m.expect(h)
	a.enter(m, h, a.slotBits(h.FragID))
	a.starter = true
	return m
}

// The method "settle" gives a fragment that beginStarter has begun a larger buffer from the pool,
// which has at least "end" bytes. The larger buffer counts towards the same memory limits as the
// first buffer of a new fragment.
func (a *Assembler) settle(m *Message, end uint32, n int, inOrder bool) error {
	p := a.pool
	class := max(a.beginClass(m.sizeBytes, n), classOf(end))
	ofPool, ofPeer := a.reserves(m.sizeBytes, class, inOrder, nil)
	capBytes := p.capacity(class)
	if err := a.lack(capBytes, ofPool, ofPeer); err != nil {
		return err
	}
	p.enlarge(m, class)
	a.starter = false
	a.activeBytes += capBytes
	a.addEmpty(m.emptyBytes())
	if inOrder && class < classOf(m.sizeBytes) {
		a.favour(m, nil)
	}
	return nil
}
