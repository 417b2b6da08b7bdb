package stream

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"unsafe"
)

// Geometry is the shape of a ring. A ring has Regions regions of RegionMessages contiguous
// messages, and each message has MessageBytes bytes. In the reliable mode, a sender can be at most
// 65536 regions ahead of the messages that the receiver has.
type Geometry struct {
	MessageBytes   int // 1 to 1 GiB; 0 means 65536
	Regions        int // 1 to 2^20; 0 means 1
	RegionMessages int // 1 to 2^24; 0 means 1
}

// The constants below are the limits of a Geometry. The size of a ring, which is the product of the
// three fields, is limited to 1<<40 bytes and to the address space.
const (
	MessageBytesMax   = 1 << 30
	RegionsMax        = 1 << 20
	RegionMessagesMax = 1 << 24
	// BlocksMax is the largest number of separate slices of memory (blocks) that NewRing accepts.
	BlocksMax = 512

	ringBytesMax = min(1<<40, math.MaxInt)
)

// WithDefaults returns a copy of g in which each zero field is replaced by its default value.
func (g Geometry) WithDefaults() Geometry {
	for _, f := range []struct {
		value *int
		def   int
	}{{&g.MessageBytes, 65536}, {&g.Regions, 1}, {&g.RegionMessages, 1}} {
		if *f.value == 0 {
			*f.value = f.def
		}
	}
	return g
}

// Validate returns an error that wraps ErrConfig if a field of the Geometry is out of its range.
func (g Geometry) Validate() error {
	for _, f := range []struct {
		name       string
		value, max int
	}{
		{"MessageBytes", g.MessageBytes, MessageBytesMax},
		{"Regions", g.Regions, RegionsMax},
		{"RegionMessages", g.RegionMessages, RegionMessagesMax},
	} {
		if f.value < 1 || f.value > f.max {
			return fmt.Errorf("%w: %s is %d, want 1 to %d", ErrConfig, f.name, f.value, f.max)
		}
	}
	if messages := uint64(g.Regions) * uint64(g.RegionMessages); uint64(g.MessageBytes) >
		ringBytesMax/messages {
		return fmt.Errorf("%w: a ring of %d regions of %d messages of %d bytes is too large",
			ErrConfig, g.Regions, g.RegionMessages, g.MessageBytes)
	}
	return nil
}

// RegionBytes returns the size of a region in bytes.
func (g Geometry) RegionBytes() int { return g.MessageBytes * g.RegionMessages }

// Messages returns the number of messages in the ring.
func (g Geometry) Messages() int { return g.Regions * g.RegionMessages }

// Bytes returns the size of the ring's memory in bytes.
func (g Geometry) Bytes() int { return g.RegionBytes() * g.Regions }

// The constants below are the states of a region. A populated region contains data for its
// consumer. The consumer is the transport in a sender's ring, and the reader in a receiver's ring.
//
//	sending     free --> populated (by the producer) --> busy (being sent) --> free
//	receiving   free --> busy (being filled) --> populated --> free (by the reader)
const (
	regionFree uint64 = iota
	regionBusy
	regionPopulated
)

// The constants below are the indices of the words of a region's descriptor. After the words of a
// region's descriptor there is a bitmap, in which bit i is set if message i of the region has been
// transferred.
const (
	wordState    = iota
	wordFirst    // ordinal of the region's first message
	wordMessages // number of messages, which can be smaller in the last region
	wordReceived // messages that have been transferred
	wordSkip     // sender: ordinals dropped before the first message
	wordBitmap
)

// The constants below are the indices of the words that mark the end of a stream.
const (
	endFinished = iota // set by the producer for the sender
	endOver            // set by the stream for the reader or the producer
	endWords
)

// Ring is the memory of a stream's messages, with the states of its regions. The methods that read
// or set the states of the regions are safe for concurrent use by several goroutines, and by all
// processes that map the ring. All words of a ring are read and written atomically. The state of a
// region determines whether the program or the transport owns the region and the words of its
// descriptor.
type Ring struct {
	geo    Geometry
	blocks [][]byte // one block, or one block per region
	words  []uint64 // descriptors, stride words each
	stride int
	counts []regionCounts
	end    []uint64    // the words endFinished and endOver
	used   atomic.Bool // a stream uses the ring
	wake   atomic.Pointer[func()]
	unmap  func() error
	// If the field "polled" is true, another process, which cannot call the function "wake", may
	// change the states of the regions.
	polled bool
}

// regionCounts is the transport's own copy of some words of a region's descriptor. The transport
// writes its counts to the ring for the program, but never reads them back, because another process
// that maps the ring can write invalid values.
type regionCounts struct {
	first    uint64 // ordinal of the region's first message
	messages uint64 // messages of the region, at most RegionMessages
	received uint64 // messages that have been transferred
}

// end returns the ordinal after the last message of the region.
func (c *regionCounts) end() uint64 { return c.first + c.messages }

// NewRing returns a ring over the caller's memory. The argument "mem" of NewRing is either one
// slice of Geometry.Bytes bytes, or one slice of Geometry.RegionBytes bytes for each of at most
// BlocksMax regions. While the ring is in use, the caller may access the memory only as the states
// of the regions permit. If the argument "mem" is empty, NewRing allocates contiguous page-aligned
// memory. The memory of a ring can be a mapping of a file or of a device. If the memory has a
// separate slice for each region, a put cannot be longer than a region, which makes a reliable
// stream with small regions slower.
func NewRing(g Geometry, mem ...[]byte) (*Ring, error) {
	g = g.WithDefaults()
	if err := g.Validate(); err != nil {
		return nil, err
	}
	if len(mem) == 0 || len(mem) == 1 && mem[0] == nil {
		mem = [][]byte{pages(g.Bytes())}
	}
	each := g.Bytes()
	if len(mem) > 1 {
		each = g.RegionBytes()
	}
	if len(mem) > 1 && len(mem) != g.Regions || len(mem) > BlocksMax {
		return nil, fmt.Errorf("%w: %d slices of memory for %d regions, at most %d", ErrConfig, len(mem),
			g.Regions, BlocksMax)
	}
	for _, block := range mem {
		if len(block) != each {
			return nil, fmt.Errorf("%w: memory of %d bytes, want %d", ErrConfig, len(block), each)
		}
	}
	r := &Ring{geo: g, blocks: slices.Clone(mem), stride: descriptorWords(g)}
	r.words = make([]uint64, r.stride*g.Regions)
	r.counts = make([]regionCounts, g.Regions)
	r.end = make([]uint64, endWords)
	return r, nil
}

// pageBytes is the largest base page size (without huge pages) of the systems that Go supports.
const pageBytes = 64 << 10

func pages(size int) []byte {
	mem := make([]byte, size+pageBytes-1)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) & (pageBytes - 1)
	return mem[skip : skip+size : skip+size]
}

// descriptorWords returns the size of a region's descriptor in words. The size of a descriptor is
// a multiple of a cache line, so that two regions do not share a cache line.
func descriptorWords(g Geometry) int {
	const line = 8
	return (wordBitmap + (g.RegionMessages+63)/64 + line - 1) / line * line
}

// Geometry returns the geometry of the ring.
func (r *Ring) Geometry() Geometry { return r.geo }

// Bytes returns the contiguous memory of all regions, or nil if the ring has a separate slice for
// each region.
func (r *Ring) Bytes() []byte {
	if len(r.blocks) != 1 {
		return nil
	}
	return r.blocks[0]
}

// Region returns the memory of region i.
func (r *Ring) Region(i int) []byte {
	block, lo := r.where(i)
	hi := lo + r.geo.RegionBytes()
	return r.blocks[block][lo:hi:hi]
}

// The method "where" returns the memory slice (block) of region i, and the offset of the region in
// this slice.
func (r *Ring) where(i int) (block, offset int) {
	if len(r.blocks) == 1 {
		return 0, i * r.geo.RegionBytes()
	}
	return i, 0
}

// Message returns the memory of message k of region i.
func (r *Ring) Message(i, k int) []byte {
	n := r.geo.MessageBytes
	return r.Region(i)[k*n : (k+1)*n : (k+1)*n]
}

func (r *Ring) word(i, w int) *uint64 { return &r.words[i*r.stride+w] }

func (r *Ring) get(i, w int) uint64 { return atomic.LoadUint64(r.word(i, w)) }

func (r *Ring) set(i, w int, v uint64) { atomic.StoreUint64(r.word(i, w), v) }

// Populated reports whether region i contains data for its consumer. The consumer of a region is
// the transport of a sender, or the reader of a receiver's ring.
func (r *Ring) Populated(i int) bool { return r.get(i, wordState) == regionPopulated }

// Free reports whether the program may fill region i of a sender's ring.
func (r *Ring) Free(i int) bool { return r.get(i, wordState) == regionFree }

// SetPopulated changes the state of region i. A producer calls SetPopulated with true after filling
// the region. A reader calls SetPopulated with false after reading the region. SetPopulated is safe
// for concurrent use by several goroutines. SetPopulated does not change a region that the
// transport owns.
func (r *Ring) SetPopulated(i int, populated bool) {
	from, to := regionPopulated, regionFree
	if populated {
		from, to = to, from
		if !r.Free(i) {
			return
		}
		r.set(i, wordMessages, uint64(r.geo.RegionMessages))
	}
	if atomic.CompareAndSwapUint64(r.word(i, wordState), from, to) {
		r.wakeUp()
	}
}

// release frees a region that a reader owns, if the region still begins with the ordinal "first". A
// second release of the same messages has no effect, even if the region was filled again between
// the two releases.
func (r *Ring) release(i int, first uint64) {
	if i >= 0 && i < r.geo.Regions && r.get(i, wordFirst) == first {
		r.SetPopulated(i, false)
	}
}

// Finish records that the producer populates no more regions. A producer in a different process
// from the sender calls Ring.Finish instead of Sender.Finish. After Finish, the stream ends when
// the populated regions are sent.
func (r *Ring) Finish() {
	r.setEnd(endFinished, true)
	r.wakeUp()
}

// Over reports whether the stream of the ring has ended. When Over is true, no more regions of a
// receiver's ring become populated, and no more regions of a sender's ring are sent. If the
// process of the stream is killed, Over stays false.
func (r *Ring) Over() bool { return atomic.LoadUint64(&r.end[endOver]) != 0 }

func (r *Ring) finished() bool { return atomic.LoadUint64(&r.end[endFinished]) != 0 }

func (r *Ring) setEnd(word int, yes bool) {
	v := uint64(0)
	if yes {
		v = 1
	}
	atomic.StoreUint64(&r.end[word], v)
}

// leave records in the ring that its stream has ended (endOver), and lets a new stream use the
// ring.
func (r *Ring) leave() {
	r.setEnd(endFinished, false)
	r.setEnd(endOver, true)
	r.unclaim()
}

// SetAllPopulated calls SetPopulated for every region.
func (r *Ring) SetAllPopulated(populated bool) {
	for i := range r.geo.Regions {
		r.SetPopulated(i, populated)
	}
}

// Transferred returns the ordinal of message k of region i, and whether the message has been
// transferred. For a receiver's ring, the result "ok" of Transferred reports whether the message
// has arrived completely. For a sender's ring, the result "ok" of Transferred reports whether the
// message has been sent. The results of Transferred are valid until the region is filled again.
func (r *Ring) Transferred(i, k int) (ordinal uint64, ok bool) {
	if i < 0 || i >= r.geo.Regions || k < 0 || k >= r.geo.RegionMessages {
		return 0, false
	}
	ok = r.get(i, wordBitmap+k/64)>>(k%64)&1 == 1
	return r.get(i, wordFirst) + uint64(k), ok
}

// open prepares region i for the receipt of "count" messages. The argument "first" of the method
// "open" is the ordinal of the region's first message.
func (r *Ring) open(i int, first uint64, count int) {
	r.counts[i] = regionCounts{first: first, messages: uint64(count)}
	r.set(i, wordFirst, first)
	r.set(i, wordMessages, uint64(count))
	r.set(i, wordReceived, 0)
	for w := wordBitmap; w < r.stride; w++ {
		r.set(i, w, 0)
	}
	r.set(i, wordState, regionBusy)
}

// shorten reduces the number of messages in region i to the argument "count".
func (r *Ring) shorten(i int, count uint64) {
	c := &r.counts[i]
	c.messages = min(c.messages, count)
	r.set(i, wordMessages, c.messages)
}

// mark records that messages [k, k+n) of a region have been transferred. The caller must not mark a
// message twice.
func (r *Ring) mark(i, k, n int) {
	c := &r.counts[i]
	c.received += uint64(n)
	r.set(i, wordReceived, c.received)
	for n > 0 {
		bit := k % 64
		m := min(n, 64-bit)
		mask := ^uint64(0) >> (64 - m) << bit
		w := wordBitmap + k/64
		r.set(i, w, r.get(i, w)|mask)
		k, n = k+m, n-m
	}
}

// view returns a description of region i that is read from the words of the ring. The transport
// that has written the words of the ring can be in another process. view limits the numbers of
// messages to their valid ranges, because any process that maps the ring can write invalid values.
func (r *Ring) view(i int) Region {
	n := min(r.get(i, wordMessages), uint64(r.geo.RegionMessages))
	return r.region(i, regionCounts{
		first: r.get(i, wordFirst), messages: n, received: min(r.get(i, wordReceived), n),
	})
}

// region returns a description of region i from the transport's own counts of the region.
func (r *Ring) region(i int, c regionCounts) Region {
	return Region{
		Index: i, First: c.first, Messages: int(c.messages), Received: int(c.received),
		Bytes: r.Region(i)[:int(c.messages)*r.geo.MessageBytes],
	}
}

// Region describes a region for the program.
type Region struct {
	Index    int    // index in the ring
	First    uint64 // ordinal of the region's first message
	Messages int    // number of messages in the region
	Received int    // transferred messages; all others are zero
	Bytes    []byte // memory of the messages, part of the ring
}

// The method "claim" begins a stream's use of the ring, and reports whether the ring was unused.
func (r *Ring) claim() bool { return r.used.CompareAndSwap(false, true) }

// unclaim ends a stream's use of the ring.
func (r *Ring) unclaim() {
	r.onWake(nil)
	r.used.Store(false)
}

// onWake sets the function that is called after the program has changed the state of a region. If
// fn is nil, no function is called.
func (r *Ring) onWake(fn func()) {
	if fn == nil {
		r.wake.Store(nil)
		return
	}
	r.wake.Store(&fn)
}

func (r *Ring) wakeUp() {
	if fn := r.wake.Load(); fn != nil {
		(*fn)()
	}
}

// Close unmaps a mapped ring. For a ring that is not mapped, Close does nothing. If a stream uses
// the ring, Close returns ErrConfig and does nothing.
func (r *Ring) Close() error {
	if r.unmap == nil {
		return nil
	}
	if r.used.Load() {
		return errRingUsed
	}
	unmap := r.unmap
	r.unmap, r.blocks, r.words, r.counts, r.end = nil, nil, nil, nil, nil
	return unmap()
}
