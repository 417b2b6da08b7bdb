package frag

import (
	"errors"
	"fmt"
	"math/bits"
)

// ErrConfig means that limits in a PoolConfig contradict each other, for example because BytesMax
// is below FragBytesMax.
var ErrConfig = errors.New("frag: invalid configuration")

// Defaults of PoolConfig, in bytes.
const (
	DefaultFragBytesMax = 256 << 20
	DefaultPoolBytesMax = 1 << 30
	DefaultKeepBytes    = 64 << 20
	DefaultGrowBytes    = 1 << 20
)

// PoolConfig limits the memory for reassembly. Each zero field of a PoolConfig stands for the
// default of this field.
type PoolConfig struct {
	// FragBytesMax is the size of the largest fragment that is reassembled. The module announces
	// FragBytesMax in its Hello. The default of FragBytesMax is the smaller of DefaultFragBytesMax and
	// BytesMax.
	FragBytesMax uint32
	// BytesMax limits the total size of the buffers of unfinished fragments, the buffers of unreleased
	// messages, and the idle buffers. In addition to the memory that BytesMax permits, each Assembler
	// may hold the first chunk of one fragment for which the pool has no memory yet (see
	// Assembler.Reserve). BytesMax is at least FragBytesMax. The default of BytesMax is the larger of
	// DefaultPoolBytesMax and FragBytesMax.
	BytesMax int64
	// PeerBytesMax limits the total size of the buffers of one Assembler's unfinished fragments.
	// Because of PeerBytesMax, a peer with many unfinished fragments cannot take all reassembly
	// memory. PeerBytesMax must be at least FragBytesMax and at most BytesMax. The default of
	// PeerBytesMax is the mean of FragBytesMax and BytesMax.
	//
	// The last FragBytesMax bytes below BytesMax and below PeerBytesMax are a reserve for fragments
	// whose packets arrive in order (see Assembler.Add). BytesMax and PeerBytesMax should be much
	// larger than FragBytesMax, because the receiver must otherwise refuse packets after each loss or
	// reordering.
	PeerBytesMax int64
	// GrowBytes is the size of the first buffer of a large fragment for which the pool has no idle
	// buffer. Whenever the buffer of an unfinished fragment is full, the pool replaces it by a buffer
	// of up to four times its size. A peer that announces a large fragment and sends only the
	// fragment's first chunk therefore takes at most GrowBytes of memory. The default of GrowBytes is
	// DefaultGrowBytes.
	GrowBytes int64
	// KeepBytes limits the total size of the idle buffers that the pool keeps for reuse. For a
	// fragment larger than KeepBytes, the pool always allocates a new buffer, and frees this buffer
	// after its use. The default of KeepBytes is DefaultKeepBytes, and a negative KeepBytes means that
	// no idle buffers are kept.
	KeepBytes int64
}

// withDefaults returns a copy of c in which each zero field has its default value.
func (c PoolConfig) withDefaults() PoolConfig {
	switch {
	case c.BytesMax == 0 && c.FragBytesMax == 0:
		c.BytesMax, c.FragBytesMax = DefaultPoolBytesMax, DefaultFragBytesMax
	case c.BytesMax == 0:
		c.BytesMax = max(DefaultPoolBytesMax, int64(c.FragBytesMax))
	case c.FragBytesMax == 0:
		c.FragBytesMax = uint32(max(0, min(DefaultFragBytesMax, c.BytesMax)))
	}
	if c.PeerBytesMax == 0 {
		c.PeerBytesMax = (c.BytesMax + int64(c.FragBytesMax)) / 2
	}
	if c.GrowBytes == 0 {
		c.GrowBytes = DefaultGrowBytes
	}
	if c.KeepBytes == 0 {
		c.KeepBytes = DefaultKeepBytes
	}
	return c
}

// Validate returns an error that wraps ErrConfig if the limits in the PoolConfig contradict each
// other, and nil otherwise. Validate checks each zero field as if the field had its default value.
func (c PoolConfig) Validate() error {
	c = c.withDefaults()
	if c.FragBytesMax == 0 || c.BytesMax < int64(c.FragBytesMax) {
		return fmt.Errorf("%w: BytesMax %d is below FragBytesMax %d", ErrConfig, c.BytesMax,
			c.FragBytesMax)
	}
	if c.PeerBytesMax < int64(c.FragBytesMax) || c.PeerBytesMax > c.BytesMax {
		return fmt.Errorf("%w: PeerBytesMax %d is not between FragBytesMax %d and BytesMax %d",
			ErrConfig, c.PeerBytesMax, c.FragBytesMax, c.BytesMax)
	}
	return nil
}

// Reassembly buffers have a fixed set of capacities (size classes), with four capacities from each
// power of two to the next one. The smallest capacity of a buffer is 1 KiB.
const (
	classBytesMinBits = 10
	classesPerDouble  = 4
	classCount        = (32-classBytesMinBits)*classesPerDouble + 1
)

// classOf returns the smallest size class whose buffers have room for sizeBytes.
func classOf(sizeBytes uint32) int {
	if sizeBytes <= 1<<classBytesMinBits {
		return 0
	}
	last := sizeBytes - 1
	k := bits.Len32(last) - 1
	quarter := int(last>>(k-2)) - classesPerDouble
	return (k-classBytesMinBits)*classesPerDouble + quarter + 1
}

func classBytes(class int) int64 {
	k := classBytesMinBits + class/classesPerDouble
	return int64(classesPerDouble+class%classesPerDouble) << (k - 2)
}

// Message is a fragment that is being reassembled, or a complete message on its way to its handler.
type Message struct {
	// Bytes is the content of the complete message. The slice Bytes is valid until Release is called.
	// The capacity of Bytes is its length.
	Bytes []byte
	// Tag is the tag that selects the handler.
	Tag uint8

	state     messageState
	class     uint8
	fragID    uint32
	sizeBytes uint32
	grid      grid
	missing   uint32 // chunks not yet received
	// arrivedBytes is the number of bytes that received chunks have written to the buffer.
	arrivedBytes int64
	grownBytes   int64    // arrivedBytes when Stalled last saw progress
	grownAt      int64    // when Stalled last saw progress; 0: Stalled has not seen the fragment
	have         []uint64 // bit i: chunk i was received; for chunks with memory
	mem          []byte
	starter      bool // mem holds only the first chunk, and counts towards no limit
	pool         *Pool
	nextIdle     *Message
}

type messageState uint8

const (
	messageIdle messageState = iota
	messageAssembling
	messageWhole
	messageKept
)

// capBytes returns how many bytes of the message's buffer count in the memory limits of the pool.
func (m *Message) capBytes() int64 {
	if m.starter {
		return 0
	}
	return int64(len(m.mem))
}

func (m *Message) roomBytes() int64 { return int64(len(m.mem)) }

// Release returns the message's buffer to the pool. The caller must not use Bytes after Release.
// Each message must be released only once.
func (m *Message) Release() {
	if m.state != messageWhole {
		panic("frag: message released twice")
	}
	m.pool.put(m)
}

// CapBytes returns the capacity of the message's buffer in bytes.
func (m *Message) CapBytes() int64 { return m.capBytes() }

// Keep excludes a complete message from the memory limits of its pool. After Keep, the caller must
// count CapBytes towards a memory limit that the caller enforces, and must call Return instead of
// Release.
func (m *Message) Keep() {
	if m.state != messageWhole {
		panic("frag: message kept that is not whole")
	}
	m.state = messageKept
	m.pool.free(m.capBytes())
}

// Return returns the buffer of a message, for which Keep was called, to the pool. The caller must
// not use Bytes after Return.
func (m *Message) Return() {
	if m.state != messageKept {
		panic("frag: message returned that is not kept")
	}
	m.pool.activeBytes += m.capBytes()
	m.pool.put(m)
}

// Pool holds the reassembly buffers of a module.
type Pool struct {
	cfg         PoolConfig
	activeBytes int64 // buffers of unfinished fragments and of unreleased messages
	emptyBytes  int64 // of activeBytes, memory that no chunk has filled
	// The field "favourite" of a Pool is the only fragment of all peers whose buffer may grow into the
	// memory reserve of BytesMax (the last FragBytesMax bytes below BytesMax). The field "favourite"
	// of a Pool becomes nil when a fragment ends and no part of the reserve of BytesMax is in use any
	// more.
	favourite *Message
	idleBytes int64
	idle      [classCount]*Message
	// The field "tables" of a Pool holds, for each size, unused tables that Assemblers need for
	// their unfinished fragments.
	tables [tableClasses][][]*Message
}

// NewPool returns an empty pool with the limits cfg, or an error that wraps ErrConfig if cfg is
// invalid.
func NewPool(cfg PoolConfig) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Pool{cfg: cfg.withDefaults()}, nil
}

// FragBytesMax returns the size of the largest fragment that the pool's Assemblers accept.
func (p *Pool) FragBytesMax() uint32 { return p.cfg.FragBytesMax }

// ActiveBytes returns the total capacity of the buffers of unfinished fragments and unreleased
// messages.
func (p *Pool) ActiveBytes() int64 { return p.activeBytes }

// IdleBytes returns the total capacity, in bytes, of the idle buffers that the pool keeps for
// reuse.
func (p *Pool) IdleBytes() int64 { return p.idleBytes }

// The method "capacity" returns the size of the buffers of a size class, which is at most
// FragBytesMax.
func (p *Pool) capacity(class int) int64 {
	return min(classBytes(class), int64(p.cfg.FragBytesMax))
}

// The method "get" returns a new Message with a buffer of the given size class, for the fragment to
// which the chunk with the header h belongs. The caller must have checked the memory limits.
func (p *Pool) get(h *Header, class int) *Message {
	capBytes := p.capacity(class)
	m := p.idle[class]
	if m != nil {
		p.idle[class] = m.nextIdle
		m.nextIdle = nil
		p.idleBytes -= capBytes
	} else {
		p.evict(p.cfg.BytesMax - p.activeBytes - capBytes)
		m = &Message{pool: p, class: uint8(class), mem: make([]byte, capBytes)}
	}
	p.activeBytes += capBytes
	m.expect(h)
	return m
}

// The method "expect" prepares a Message, which already has a buffer, for the fragment to which the
// chunk with the header h belongs.
func (m *Message) expect(h *Header) {
	m.Tag, m.fragID, m.grid, m.sizeBytes = h.Tag, h.FragID, gridOf(h), h.SizeBytes
	m.state, m.missing = messageAssembling, m.grid.chunks(h.SizeBytes)
	m.arrivedBytes, m.grownAt = 0, 0
	m.have = m.have[:0]
	m.cover()
}

// wordsOfRoom returns how many words the bitmap of received chunks needs for the chunks that fit in
// the fragment's present buffer.
func (m *Message) wordsOfRoom() int {
	end := min(int64(m.sizeBytes), m.roomBytes())
	return int(m.grid.index(uint32(end-1))>>6) + 1
}

// The method "cover" extends the bitmap of received chunks to all chunks that fit in the fragment's
// present buffer.
func (m *Message) cover() {
	words := m.wordsOfRoom()
	if cap(m.have) < words {
		m.have = append(make([]uint64, 0, words), m.have...)
	}
	had := len(m.have)
	m.have = m.have[:words]
	clear(m.have[had:])
}

// beginClass returns the size class of the first buffer of a fragment of sizeBytes. The first
// buffer holds the whole fragment, unless the fragment is larger than GrowBytes and the pool has no
// idle buffer of its size class.
func (p *Pool) beginClass(sizeBytes uint32) int {
	class := classOf(sizeBytes)
	if p.idle[class] != nil {
		return class
	}
	return min(class, classOf(uint32(min(p.cfg.GrowBytes, int64(p.cfg.FragBytesMax)))))
}

// growFactor is the factor by which a full reassembly buffer is enlarged.
const growFactor = 4

// grownClass returns the size class of the buffer to which a fragment's buffer is enlarged for a
// chunk of n bytes that ends at the offset "end". The enlarged buffer has at most about growFactor
// times as many bytes as have arrived, unless the chunk needs a larger buffer.
func (m *Message) grownClass(end uint32, n int) int {
	bytes := growFactor * min(m.capBytes(), m.arrivedBytes+int64(n))
	return classOf(uint32(min(max(bytes, int64(end)), int64(m.sizeBytes))))
}

// enlarge replaces the buffer of a fragment by a larger buffer of the given size class. The caller
// must have checked the memory limits.
func (p *Pool) enlarge(m *Message, class int) {
	more := p.capacity(class) - m.capBytes()
	p.evict(p.cfg.BytesMax - p.activeBytes - more)
	mem := make([]byte, p.capacity(class))
	copy(mem, m.mem)
	m.mem, m.class, m.starter = mem, uint8(class), false
	m.cover()
	p.activeBytes += more
}

// put returns a buffer to the pool.
func (p *Pool) put(m *Message) {
	m.state = messageIdle
	m.Bytes = nil
	if m.starter {
		return
	}
	p.free(m.capBytes())
	if p.idleBytes+m.capBytes() > p.cfg.KeepBytes {
		return
	}
	m.nextIdle = p.idle[m.class]
	p.idle[m.class] = m
	p.idleBytes += m.capBytes()
	p.evict(p.cfg.BytesMax - p.activeBytes)
}

// The method "free" records that a buffer with the given number of bytes is no longer in use. If no
// part of the reserve of BytesMax is then in use, the fragment with the right to grow into this
// reserve loses this right.
func (p *Pool) free(bytes int64) {
	p.activeBytes -= bytes
	if !p.inReserve() {
		p.favourite = nil
	}
}

// inReserve reports whether a part of the memory reserve of BytesMax is in use.
func (p *Pool) inReserve() bool {
	return p.activeBytes > p.cfg.BytesMax-int64(p.cfg.FragBytesMax)
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

// putTable returns a table of unfinished fragments, which must be empty, to the pool.
func (p *Pool) putTable(t []*Message) {
	kept := &p.tables[bits.TrailingZeros(uint(len(t)))-tableSlotsMinBits]
	if len(*kept) < tablesKept {
		*kept = append(*kept, t)
	}
}

// The method "evict" frees idle buffers, the largest ones first, until the total size of the
// remaining idle buffers is at most roomBytes.
func (p *Pool) evict(roomBytes int64) {
	for class := classCount - 1; class >= 0 && p.idleBytes > roomBytes; class-- {
		for p.idle[class] != nil && p.idleBytes > roomBytes {
			m := p.idle[class]
			p.idle[class] = m.nextIdle
			m.nextIdle = nil
			p.idleBytes -= m.capBytes()
		}
	}
}

// Check returns an error for the first invariant of the pool that does not hold, or nil if all of
// them hold.
func (p *Pool) Check() error {
	if p.activeBytes < 0 || p.idleBytes < 0 || p.activeBytes+p.idleBytes > p.cfg.BytesMax ||
		p.idleBytes > max(p.cfg.KeepBytes, 0) {
		return fmt.Errorf("frag: %d bytes in use, %d idle, at most %d and %d", p.activeBytes,
			p.idleBytes, p.cfg.BytesMax, p.cfg.KeepBytes)
	}
	if f := p.favourite; f != nil && (f.state != messageAssembling || f.pool != p) {
		return fmt.Errorf("frag: with %d bytes in use, a fragment of state %d has the reserve",
			p.activeBytes, f.state)
	}
	return nil
}

// CheckIdle verifies the pool as Check does, and in addition each idle buffer.
func (p *Pool) CheckIdle() error {
	idle := int64(0)
	for class, m := range p.idle {
		for ; m != nil; m = m.nextIdle {
			if m.state != messageIdle || int(m.class) != class || m.capBytes() != p.capacity(class) {
				return fmt.Errorf("frag: idle buffer of %d bytes, state %d, in class %d", m.capBytes(),
					m.state, class)
			}
			idle += m.capBytes()
		}
	}
	if idle != p.idleBytes {
		return fmt.Errorf("frag: %d bytes are idle, %d counted", idle, p.idleBytes)
	}
	return p.Check()
}
