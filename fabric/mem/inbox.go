package mem

import (
	"sync"

	"gobtl/fabric/internal/doorbell"
)

// The type "inbox" is the bounded receive queue of an endpoint, and corresponds to the receive
// buffer of a UDP socket.
type inbox struct {
	bell *doorbell.Bell // of the domain that owns the endpoint

	mu        sync.Mutex
	closed    bool
	slotBytes int
	mem       []byte // the datagrams' bytes, slotBytes for each slot
	slots     []slot
	head      int
	count     int
}

type slot struct {
	from      uint32 // number of the sending endpoint
	sizeBytes uint32
}

type putResult uint8

const (
	putDone putResult = iota
	putFull
	putClosed
)

func newInbox(datagrams, slotBytes int, bell *doorbell.Bell) *inbox {
	return &inbox{
		bell:      bell,
		slotBytes: slotBytes,
		mem:       make([]byte, datagrams*slotBytes),
		slots:     make([]slot, datagrams),
	}
}

// The method "put" appends a datagram to the receive queue. The datagram is the concatenation of
// the arguments "head" and "tail", and must not be larger than slotBytes. The method "put" is safe
// for concurrent use.
func (in *inbox) put(from uint32, head, tail []byte) putResult {
	in.mu.Lock()
	switch {
	case in.closed:
		in.mu.Unlock()
		return putClosed
	case in.count == len(in.slots):
		in.mu.Unlock()
		return putFull
	}
	i := in.head + in.count
	if i >= len(in.slots) {
		i -= len(in.slots)
	}
	room := in.mem[i*in.slotBytes : (i+1)*in.slotBytes]
	n := copy(room, head)
	n += copy(room[n:], tail)
	in.slots[i] = slot{from: from, sizeBytes: uint32(n)}
	in.count++
	in.mu.Unlock()
	in.bell.RingIfAsleep()
	return putDone
}

// The method "first" returns the oldest datagram of the queue, which is valid until the next call
// of the method "drop". The caller of "first" must hold the lock of the inbox, and the queue must
// not be empty.
func (in *inbox) first() (from uint32, pkt []byte) {
	s := in.slots[in.head]
	lo := in.head * in.slotBytes
	return s.from, in.mem[lo : lo+int(s.sizeBytes)]
}

// drop removes the oldest datagram from the queue. The caller must hold the lock.
func (in *inbox) drop() {
	in.head++
	if in.head == len(in.slots) {
		in.head = 0
	}
	in.count--
}

func (in *inbox) waiting() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.count > 0
}

// The method "shut" releases the memory of the receive queue. After a call of "shut", every call of
// the method "put" fails.
func (in *inbox) shut() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.mem, in.slots, in.count = nil, nil, 0
}
