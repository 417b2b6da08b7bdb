package frag

import (
	"errors"
	"fmt"
	"math/bits"
)

// ErrConfig: a PoolConfig whose limits contradict each other.
var ErrConfig = errors.New("frag: invalid configuration")

// Defaults of PoolConfig, in bytes.
const (
	DefaultFragBytesMax = 256 << 20
	DefaultPoolBytesMax = 1 << 30
	DefaultKeepBytes    = 64 << 20
	DefaultGrowBytes    = 1 << 20
)

// PoolConfig bounds the memory that reassembly may take. Zero fields mean the default.
type PoolConfig struct {
	// FragBytesMax is the largest fragment that is reassembled; what the module announces in its
	// Hello. Default DefaultFragBytesMax, or BytesMax where that is less.
	FragBytesMax uint32
	// BytesMax bounds the buffers of all unfinished fragments, unreleased messages and idle buffers
	// together; beyond it, each Assembler may have one packet of a fragment that waits for memory
	// (Assembler.Reserve). At least FragBytesMax. Default DefaultPoolBytesMax, or FragBytesMax where
	// that is more.
	BytesMax int64
	// PeerBytesMax bounds the buffers of the unfinished fragments of one Assembler, so that a peer
	// that leaves its fragments unfinished cannot stop all others. FragBytesMax to BytesMax.
	// Default half way between the two.
	//
	// FragBytesMax of either limit is a reserve for fragments that arrive in order (Assembler.Add).
	// With a limit that is not well above it, each loss or reordering costs more packets.
	PeerBytesMax int64
	// GrowBytes is the memory with which a fragment begins for which no idle buffer is there. A larger
	// one gets more when it has arrived, four times as much each time: so what a peer announces costs
	// no more than this. Default DefaultGrowBytes.
	GrowBytes int64
	// KeepBytes bounds the idle buffers that are kept for reuse; the rest goes to the garbage
	// collector. A stream of fragments larger than this allocates one buffer for each. Default
	// DefaultKeepBytes; negative keeps none.
	KeepBytes int64
}

// withDefaults returns c with its zero fields filled in.
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

// Validate returns an error that wraps ErrConfig if the limits, with defaults filled in, contradict
// each other.
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

// Buffers come in classes of capacities: four to a power of two, so that less than a quarter of
// a buffer (a fifth of its capacity) is slack, and the smallest is 1 KiB.
const (
	classBytesMinBits = 10
	classesPerDouble  = 4
	classCount        = (32-classBytesMinBits)*classesPerDouble + 1
)

// classOf returns the smallest class whose capacity holds sizeBytes.
func classOf(sizeBytes uint32) int {
	if sizeBytes <= 1<<classBytesMinBits {
		return 0
	}
	// With last = size-1 in [2^k, 2^(k+1)), its two bits after the leading one choose the quarter.
	last := sizeBytes - 1
	k := bits.Len32(last) - 1
	quarter := int(last>>(k-2)) - classesPerDouble
	return (k-classBytesMinBits)*classesPerDouble + quarter + 1
}

// classBytes returns the capacity of a class.
func classBytes(class int) int64 {
	k := classBytesMinBits + class/classesPerDouble
	return int64(classesPerDouble+class%classesPerDouble) << (k - 2)
}

// Message is a fragment that is being reassembled, or is whole and on its way to its handler.
type Message struct {
	// Bytes is the message, valid until Release. Its capacity ends with it.
	Bytes []byte
	// Tag is the handler's tag.
	Tag uint8

	state     messageState
	class     uint8
	fragID    uint32
	sizeBytes uint32
	grid      grid
	missing   uint32 // chunks not yet received
	// arrivedBytes are those that were put into the buffer.
	arrivedBytes int64
	grownBytes   int64    // were there when Stalled has found that the fragment had gone on,
	grownAt      int64    // at this instant; 0: it was not looked at
	have         []uint64 // bit i: chunk i was received; for chunks that have memory
	mem          []byte
	starter      bool // mem holds the first packet alone, and counts in no budget
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

// capBytes is what the message's buffer counts in the budgets.
func (m *Message) capBytes() int64 {
	if m.starter {
		return 0
	}
	return int64(len(m.mem))
}

// roomBytes is how much of the message has memory.
func (m *Message) roomBytes() int64 { return int64(len(m.mem)) }

// Release gives the message's buffer back to the pool; Bytes must not be touched afterwards. Any
// number of messages may be out at a time, and they may be released in any order, each once.
func (m *Message) Release() {
	if m.state != messageWhole {
		panic("frag: message released twice")
	}
	m.pool.put(m)
}

// CapBytes is the capacity of the message's buffer.
func (m *Message) CapBytes() int64 { return m.capBytes() }

// Keep takes a whole message out of its pool's budget until Return, which replaces Release: the
// caller must count CapBytes itself. So a kept message takes no memory from unfinished ones.
func (m *Message) Keep() {
	if m.state != messageWhole {
		panic("frag: message kept that is not whole")
	}
	m.state = messageKept
	m.pool.activeBytes -= m.capBytes()
}

// Return gives the buffer of a kept message back to the pool; Bytes must not be touched afterwards.
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
	emptyBytes  int64 // of these, such that nothing has come for
	// favourite is the one fragment that may grow into the reserve, nil if none does.
	favourite *Message
	idleBytes int64
	idle      [classCount]*Message
	// tables keeps the slot tables of assemblers that have become idle, by size.
	tables [tableClasses][][]*Message
}

// NewPool returns an empty pool, or an error that wraps ErrConfig.
func NewPool(cfg PoolConfig) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Pool{cfg: cfg.withDefaults()}, nil
}

// FragBytesMax returns the largest fragment that the pool's assemblers take.
func (p *Pool) FragBytesMax() uint32 { return p.cfg.FragBytesMax }

// ActiveBytes returns the capacity of the buffers of unfinished fragments and unreleased messages.
func (p *Pool) ActiveBytes() int64 { return p.activeBytes }

// IdleBytes returns the capacity of the buffers that are kept for reuse.
func (p *Pool) IdleBytes() int64 { return p.idleBytes }

// capacity returns the size of a class's buffers. The largest class in use is cut down to
// FragBytesMax, so that a fragment that is allowed always fits an empty pool.
func (p *Pool) capacity(class int) int64 {
	return min(classBytes(class), int64(p.cfg.FragBytesMax))
}

// get returns a buffer of a class for the fragment of a chunk, none of which was received; nil if
// more than limitBytes would then be active.
func (p *Pool) get(h *Header, class int, limitBytes int64) *Message {
	capBytes := p.capacity(class)
	if p.activeBytes+capBytes > limitBytes {
		return nil
	}
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

// expect makes a message that has memory a fragment of which nothing has come. Its chunks are as
// many as the header says; bits are kept of those that have memory (cover).
func (m *Message) expect(h *Header) {
	m.Tag, m.fragID, m.grid, m.sizeBytes = h.Tag, h.FragID, gridOf(h), h.SizeBytes
	m.state, m.missing = messageAssembling, m.grid.chunks(h.SizeBytes)
	m.arrivedBytes, m.grownAt = 0, 0
	m.have = m.have[:0]
	m.cover()
}

// wordsOfRoom is how many words of bits the chunks take that have memory.
func (m *Message) wordsOfRoom() int {
	end := min(int64(m.sizeBytes), m.roomBytes())
	return int(m.grid.index(uint32(end-1))>>6) + 1
}

// cover makes a bit for each chunk that has memory. So the bits are a thousandth of what counts in
// the budgets, or is the caller's (one of ChunkBytesMin bytes), whatever is announced.
func (m *Message) cover() {
	words := m.wordsOfRoom()
	if cap(m.have) < words {
		m.have = append(make([]uint64, 0, words), m.have...)
	}
	had := len(m.have)
	m.have = m.have[:words]
	clear(m.have[had:])
}

// beginClass is the class of the buffer with which a fragment of sizeBytes begins: its own if an
// idle one is there, or if that is a small one.
func (p *Pool) beginClass(sizeBytes uint32) int {
	class := classOf(sizeBytes)
	if p.idle[class] != nil {
		return class
	}
	return min(class, classOf(uint32(min(p.cfg.GrowBytes, int64(p.cfg.FragBytesMax)))))
}

// growFactor is how many times larger a buffer gets when it is full.
const growFactor = 4

// grow gives a fragment memory up to the byte end, which has arrived: it has not, if more than
// limitBytes would then be active, nor if end is far beyond what has arrived.
func (p *Pool) grow(m *Message, end uint32, limitBytes int64) bool {
	if int64(end) > growFactor*max(m.arrivedBytes, p.cfg.GrowBytes)+growAhead {
		return false
	}
	class := classOf(uint32(min(max(growFactor*m.capBytes(), int64(end)), int64(m.sizeBytes))))
	more := p.capacity(class) - m.capBytes()
	if p.activeBytes+more > limitBytes {
		return false
	}
	p.enlarge(m, class)
	return true
}

// enlarge gives a fragment a buffer of a class instead of the one that it has.
func (p *Pool) enlarge(m *Message, class int) {
	more := p.capacity(class) - m.capBytes()
	p.evict(p.cfg.BytesMax - p.activeBytes - more)
	mem := make([]byte, p.capacity(class))
	copy(mem, m.mem)
	m.mem, m.class, m.starter = mem, uint8(class), false
	m.cover()
	p.activeBytes += more
}

// growAhead is how far beyond what has arrived a chunk may be: a sender sends them in their order,
// and what is missing before it is on its way. A chunk that is refused comes again.
const growAhead = 16 << 20

// put takes a buffer back.
func (p *Pool) put(m *Message) {
	if p.favourite == m {
		p.favourite = nil
	}
	m.state = messageIdle
	m.Bytes = nil
	if m.starter {
		return
	}
	p.activeBytes -= m.capBytes()
	if p.idleBytes+m.capBytes() > p.cfg.KeepBytes {
		return
	}
	m.nextIdle = p.idle[m.class]
	p.idle[m.class] = m
	p.idleBytes += m.capBytes()
	p.evict(p.cfg.BytesMax - p.activeBytes) // nothing, if no fragment began ahead of its memory
}

// evict lets go of idle buffers, large ones first, until at most roomBytes are kept.
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

// Check reports the first bound that does not hold. It is for tests and simulators.
func (p *Pool) Check() error {
	if p.activeBytes < 0 || p.idleBytes < 0 || p.activeBytes+p.idleBytes > p.cfg.BytesMax ||
		p.idleBytes > max(p.cfg.KeepBytes, 0) {
		return fmt.Errorf("frag: %d bytes in use, %d idle, at most %d and %d", p.activeBytes,
			p.idleBytes, p.cfg.BytesMax, p.cfg.KeepBytes)
	}
	return nil
}

// CheckIdle is Check, and walks the idle buffers too: a slow look, for a pool at rest.
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
