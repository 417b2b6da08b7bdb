//go:build linux

package shm

import (
	"errors"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/internal/bulk"
)

const (
	ringMagic   = 0x676f62746c52_03 // "gobtlR", version 3
	ringAlign   = 64                // a cache line: records of two datagrams never share one
	wordBytes   = 8
	headerBytes = 4096

	offMagic  = 0
	offSize   = 8
	offHead   = 64
	offSleeps = 128
	offWants  = 192

	ringBytesMin = 256 << 10
	ringBytesMax = 4 << 20

	wordEnd  = 0
	wordSkip = 1 << 32

	// publishBytes bounds the unpublished part of a batch: beyond it the receiver should begin.
	publishBytes = 16 << 10

	// touchBytes is the amount of a ring's memory that is populated at once at its first use: a
	// single page fault costs as much as ten messages, and all of a ring may never be used.
	touchBytes = 64 << 10
	// firstBytes is the beginning of a ring that is populated by page faults: many peers send only
	// a few small datagrams.
	firstBytes = 4 << 10
)

// errRing: the contents of a ring are not what a sender writes.
var errRing = errors.New("shm: a ring has impossible contents")

// ring is one side's view of a ring: memory that both sides map. All positions count bytes since
// the ring was made; their low bits are the offset in it.
type ring struct {
	mem  []byte // all of it, mapped
	data unsafe.Pointer
	size uint64 // of the data, a power of two

	touched uint64 // of the data so much is there in this process
}

func newRing(mem []byte) ring {
	size := uint64(len(mem) - headerBytes)
	return ring{
		mem: mem, data: unsafe.Pointer(&mem[headerBytes]), size: size,
		touched: firstBytes,
	}
}

func (r *ring) head() *uint64   { return (*uint64)(unsafe.Pointer(&r.mem[offHead])) }
func (r *ring) sleeps() *uint32 { return (*uint32)(unsafe.Pointer(&r.mem[offSleeps])) }
func (r *ring) wants() *uint32  { return (*uint32)(unsafe.Pointer(&r.mem[offWants])) }

// touch populates further memory of the ring, to save a page fault for each page at its first use.
// If that fails the page faults occur.
func (r *ring) touch() {
	at := headerBytes + r.touched
	n := min(touchBytes, r.size-r.touched)
	_ = unix.Madvise(r.mem[at:at+n], unix.MADV_POPULATE_WRITE)
	r.touched += n
}

// word is the first word of the record at a position.
func (r *ring) word(pos uint64) *uint64 {
	return (*uint64)(unsafe.Add(r.data, pos&(r.size-1)))
}

// bytes is the memory from a place behind a position on; the caller has made sure of its bounds.
func (r *ring) bytes(pos, n uint64) []byte {
	at := headerBytes + pos&(r.size-1) + wordBytes
	return r.mem[at : at+n : at+n]
}

// recordBytes is the room that a datagram takes.
func recordBytes(size uint64) uint64 {
	return (size + wordBytes + ringAlign - 1) &^ (ringAlign - 1)
}

// sendRing is the sender's side of a ring.
type sendRing struct {
	ring
	tail  uint64 // where the next record goes
	taken uint64 // the receiver's head as last read
	first uint64 // the first record that is not visible yet, if open
	word1 uint64 // its word
	end   uint64 // the position of an end that is written already
	open  bool
	wake  uint32 // how the receiver slept at a publish, and must be woken
}

// format writes what the receiver checks.
func (s *sendRing) format() {
	*(*uint64)(unsafe.Pointer(&s.mem[offMagic])) = ringMagic
	*(*uint64)(unsafe.Pointer(&s.mem[offSize])) = s.size
}

// room finds the position of a record of n bytes; false means that there is no room now. The
// receiver's head is accepted if it is within the bytes put in: a false value only harms the
// receiver's own ring.
func (s *sendRing) room(n uint64) (skip uint64, ok bool) {
	left := s.size - s.tail&(s.size-1)
	need := n + ringAlign // and the end behind it
	if left < n {
		skip = left
		need += left
	}
	if s.tail+need-s.taken <= s.size {
		return skip, true
	}
	if taken := atomic.LoadUint64(s.head()); taken-s.taken <= s.tail-s.taken {
		s.taken = taken
	}
	return skip, s.tail+need-s.taken <= s.size
}

// put copies a datagram in, to be seen with the next publish. False means that there is no room.
func (s *sendRing) put(head, tail []byte) bool {
	size := uint64(len(head) + len(tail))
	n := recordBytes(size)
	skip, ok := s.room(n)
	if !ok {
		return false
	}
	if s.touched < s.size && s.tail+n >= s.touched {
		s.touch()
	}
	if skip > 0 {
		s.begin(wordSkip)
		s.tail += skip
	}
	if !s.open {
		// The receiver polls the cache line of the old end. So the new end is written first:
		// between its write and that of the word the line could move to the receiver, and would
		// have to be fetched again.
		s.end = s.tail + n
		*s.word(s.end) = wordEnd
	}
	room := s.bytes(s.tail, size)
	bulk.Copy(room[bulk.Copy(room, head):], tail)
	s.begin(size + 1)
	s.tail += n
	if s.tail-s.first >= publishBytes {
		s.publish()
	}
	return true
}

// begin writes the word of the record at the tail, or keeps it if the record is the first of those
// that are not visible yet.
func (s *sendRing) begin(word uint64) {
	if !s.open {
		s.first, s.word1, s.open = s.tail, word, true
		return
	}
	*s.word(s.tail) = word
}

// publish makes what was put visible: the new end, then the first word over the old one. The store
// is a full barrier, so that the sleep flag is read behind it.
func (s *sendRing) publish() {
	if !s.open {
		return
	}
	if s.end != s.tail {
		*s.word(s.tail) = wordEnd
	}
	s.open = false
	atomic.StoreUint64(s.word(s.first), s.word1)
	if how := takeBack(s.sleeps()); how != awake {
		s.wake = how
	}
}

// recvRing is the receiver's side of a ring.
type recvRing struct {
	ring
	at   uint64 // the next record
	told uint64 // the head that the sender knows
}

// check says whether the memory is a ring.
func (q *recvRing) check() bool {
	return *(*uint64)(unsafe.Pointer(&q.mem[offMagic])) == ringMagic &&
		*(*uint64)(unsafe.Pointer(&q.mem[offSize])) == q.size
}

// next returns the datagram at the head; nil without an error means none. The sender can still
// change the bytes: copy them before examining them.
func (q *recvRing) next() ([]byte, error) {
	for skipped := false; ; skipped = true {
		word := atomic.LoadUint64(q.word(q.at))
		left := q.size - q.at&(q.size-1)
		switch {
		case word == wordEnd:
			return nil, nil
		case word == wordSkip && !skipped && left < q.size:
			q.at += left
			continue
		case word > mtuBytes+1 || recordBytes(word-1) > left:
			return nil, errRing
		}
		return q.bytes(q.at, word-1), nil
	}
}

// advance moves the head past a datagram of n bytes.
func (q *recvRing) advance(size int) {
	q.at += recordBytes(uint64(size))
	if q.touched < q.size && q.at >= q.touched {
		q.touch()
	}
}

// waiting says whether there is something to take out.
func (q *recvRing) waiting() bool { return atomic.LoadUint64(q.word(q.at)) != wordEnd }

// giveBack publishes the head to the sender once an eighth of the ring was taken out, and returns
// how the sender sleeps, if it waits for room. Seven eighths hold any datagram: so if a sender
// finds no room, the receiver will get here once more.
func (q *recvRing) giveBack() (how uint32) {
	if q.at-q.told < q.size/8 {
		return awake
	}
	q.told = q.at
	atomic.StoreUint64(q.head(), q.at)
	return takeBack(q.wants())
}

// takeBack clears the word by which the other side says that it sleeps, and returns its value. If
// the other side is awake the word is only read, so that its cache line is not taken away.
func takeBack(word *uint32) uint32 {
	if atomic.LoadUint32(word) == awake {
		return awake
	}
	return atomic.SwapUint32(word, awake)
}
