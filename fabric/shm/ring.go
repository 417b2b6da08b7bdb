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
	ringAlign   = 64                // a cache line, which two records never share
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

	// Within a batch, the sender publishes the written records to the receiver as soon as the
	// unpublished records have at least publishBytes bytes.
	publishBytes = 16 << 10

	// The sender and the receiver each prefault their mapping of a ring (MADV_POPULATE_WRITE) in parts
	// of touchBytes, when a part is first used.
	touchBytes = 64 << 10
	// The first firstBytes bytes of a ring are not prefaulted, and cause ordinary page faults.
	firstBytes = 4 << 10
)

// errRing means that a ring has contents that a correct sender never writes.
var errRing = errors.New("shm: a ring has impossible contents")

// The type "ring" is the mapping of a ring's memory in one process, the sender or the receiver. A
// position in a ring is the number of bytes that were written before this position since the ring
// was created. The low bits of a position are an offset in the memory of the ring.
type ring struct {
	mem  []byte // the whole mapping
	data unsafe.Pointer
	size uint64 // size of the data, a power of two

	touched uint64 // bytes of the data that are populated in this process
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

// The method "touch" prefaults the next part of the ring's memory by one system call, which
// replaces a page fault for each page.
func (r *ring) touch() {
	at := headerBytes + r.touched
	n := min(touchBytes, r.size-r.touched)
	_ = unix.Madvise(r.mem[at:at+n], unix.MADV_POPULATE_WRITE)
	r.touched += n
}

func (r *ring) word(pos uint64) *uint64 {
	return (*uint64)(unsafe.Add(r.data, pos&(r.size-1)))
}

// The method "bytes" returns the n bytes of a record that follow the word at the position "pos".
// The caller of the method "bytes" must check that the n bytes are within the ring.
func (r *ring) bytes(pos, n uint64) []byte {
	at := headerBytes + pos&(r.size-1) + wordBytes
	return r.mem[at : at+n : at+n]
}

func recordBytes(size uint64) uint64 {
	return (size + wordBytes + ringAlign - 1) &^ (ringAlign - 1)
}

// sendRing is the sender's side of a ring.
type sendRing struct {
	ring
	tail  uint64 // where the next record goes
	taken uint64 // the receiver's head when last read
	first uint64 // position of the first invisible record, if open
	word1 uint64 // the word of the record at first
	end   uint64 // the position of an end that is already written
	open  bool
	wake  uint32 // how the receiver sleeps and must be woken
}

// The method "format" writes a magic number and the size of the ring to the beginning of the ring's
// memory. The receiver of the ring checks the magic number and the size when it maps the ring.
func (s *sendRing) format() {
	*(*uint64)(unsafe.Pointer(&s.mem[offMagic])) = ringMagic
	*(*uint64)(unsafe.Pointer(&s.mem[offSize])) = s.size
}

// The method "room" finds memory in the ring for a record of n bytes, and returns the number of
// bytes to skip before the record. The result "ok" of the method "room" is false if the ring has no
// room for the record, and otherwise true. The sender accepts any head position (of the receiver)
// that lies within the written bytes, because a receiver that writes a wrong head position harms
// only its own ring.
func (s *sendRing) room(n uint64) (skip uint64, ok bool) {
	left := s.size - s.tail&(s.size-1)
	need := n + ringAlign // includes the end after the record
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

// The method "put" copies a datagram into the ring and returns true, or returns false if the ring
// has no room. The next call of the method "publish" makes the datagram visible to the receiver.
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

// The method "begin" writes the 8-byte word with which the record at the tail of the ring begins.
// If the record is the first of a batch, the method "begin" only saves the word in the field word1,
// and the next call of the method "publish" writes the word.
func (s *sendRing) begin(word uint64) {
	if !s.open {
		s.first, s.word1, s.open = s.tail, word, true
		return
	}
	*s.word(s.tail) = word
}

// The method "publish" makes the records of the batch visible to the receiver. The method "publish"
// first writes a zero word after the last record, and then overwrites the zero word before the
// batch with the size word of the first record. The write of the first record's size word is an
// atomic store with a full memory barrier, because the sender must read the receiver's sleep flag
// after this write.
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
	at   uint64 // position of the next record
	told uint64 // the head that was last published to the sender
}

func (q *recvRing) check() bool {
	return *(*uint64)(unsafe.Pointer(&q.mem[offMagic])) == ringMagic &&
		*(*uint64)(unsafe.Pointer(&q.mem[offSize])) == q.size
}

// The method "next" returns the datagram at the head of the ring, or nil if the ring is empty. The
// sender can change the bytes in the ring at any time, and therefore the caller of "next" must copy
// the returned bytes before examining them.
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

// The method "advance" moves the head of the ring past a datagram of the given size.
func (q *recvRing) advance(size int) {
	q.at += recordBytes(uint64(size))
	if q.touched < q.size && q.at >= q.touched {
		q.touch()
	}
}

func (q *recvRing) waiting() bool { return atomic.LoadUint64(q.word(q.at)) != wordEnd }

// giveBack publishes the head to the sender each time the receiver has read an eighth of the ring.
// If the sender sleeps until the ring has room, the result of giveBack tells how to wake the
// sender. Any datagram fits in seven eighths of the ring, and therefore a later call of giveBack
// always publishes enough free space for a sender that waits.
func (q *recvRing) giveBack() (how uint32) {
	if q.at-q.told < q.size/8 {
		return awake
	}
	q.told = q.at
	atomic.StoreUint64(q.head(), q.at)
	return takeBack(q.wants())
}

// takeBack clears the sleep flag "word" of the peer, and returns the previous value of the flag.
func takeBack(word *uint32) uint32 {
	if atomic.LoadUint32(word) == awake {
		return awake
	}
	return atomic.SwapUint32(word, awake)
}
