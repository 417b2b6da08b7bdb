package pml

import "math/bits"

// keptMax is the maximum number of free buffers in each size class of the pool, and of free
// Messages.
const keptMax = 256

// keptBytesMax is the maximum total size, in bytes, of the free buffers in each size class of the
// pool.
const keptBytesMax = 8 << 20

// pooledMax is the size of the largest buffer that a Layer keeps in its pool for reuse, in bytes.
const pooledMax = 1 << 21

// The type "memory" holds the copies of the messages that have arrived and wait for earlier
// messages, for a receive, or for the caller. The type "memory" counts the bytes of the copied
// messages, counts them towards the limits of their senders (see host.go), and has a pool of
// Messages and of data buffers. The capacity of each buffer is a power of two.
type memory struct {
	bytes    int // bytes of the data of the held messages
	buffers  [22][][]byte
	messages []*Message
}

// The method "keep" returns a copy of the Message m with a copy of the data, and counts this copy.
func (y *memory) keep(m *Message, data []byte) *Message {
	kept := y.get()
	*kept = *m
	if kept.data = nil; len(data) > 0 {
		kept.data = y.take(len(data))
	}
	copy(kept.data, data)
	y.count(kept)
	return kept
}

// The method "lend" returns a copy of the Message m, without copying the data, which still belongs
// to the transport. The memory does not count this Message.
func (y *memory) lend(m *Message, data []byte) *Message {
	lent := y.get()
	*lent = *m
	lent.data, lent.lent = data, true
	return lent
}

// The method "own" copies the data of a message that the method "lend" has returned, so that the
// memory holds the message. For a message that the memory already holds, the method "own" does
// nothing.
func (y *memory) own(m *Message) {
	if !m.lent {
		return
	}
	lent := m.data
	m.data, m.lent = nil, false
	if len(lent) > 0 {
		m.data = append(y.take(len(lent))[:0], lent...)
	}
	y.count(m)
}

// The method "count" adds a message to the counts of the messages that the memory holds.
func (y *memory) count(m *Message) {
	m.peer.charge(m.held())
	y.bytes += len(m.data)
}

// The method "spend" frees the data of a message when the message is received or dropped. The
// Message itself stays valid. For a message that was already
// received or dropped, the method "spend" does nothing.
func (y *memory) spend(m *Message) {
	if !m.lent && !m.gone {
		m.peer.charge(-m.held())
		y.bytes -= len(m.data)
		y.give(m.data)
	}
	m.gone, m.data = true, nil
}

// The method "release" frees a Message and its data. The method "release" accepts only Messages
// that the method "keep" or "lend" has returned. After the release, the Message must not be used.
func (y *memory) release(m *Message) {
	y.spend(m)
	if len(y.messages) < keptMax {
		*m = Message{gone: true}
		y.messages = append(y.messages, m)
	}
}

// The method "get" returns a Message from the pool. The caller overwrites all fields.
func (y *memory) get() *Message {
	last := len(y.messages) - 1
	if last < 0 {
		return &Message{}
	}
	m := y.messages[last]
	y.messages = y.messages[:last]
	return m
}

// The method "take" returns a buffer of n bytes, from the pool if possible. The number n must be
// positive.
func (y *memory) take(n int) []byte {
	if n > pooledMax {
		return make([]byte, n)
	}
	class := bits.Len(uint(n - 1))
	idle := &y.buffers[class]
	if last := len(*idle) - 1; last >= 0 {
		var b []byte
		b, *idle = (*idle)[last], (*idle)[:last]
		return b[:n]
	}
	return make([]byte, n, 1<<class)
}

// The method "give" returns a buffer to the pool.
func (y *memory) give(b []byte) {
	if cap(b) == 0 || cap(b) > pooledMax {
		return
	}
	class := bits.Len(uint(cap(b) - 1))
	if idle := &y.buffers[class]; len(*idle) < min(keptMax, keptBytesMax>>class) {
		*idle = append(*idle, b[:cap(b)])
	}
}

// The method "held" returns the memory that an unexpected message takes, in bytes.
func (m *Message) held() int64 { return int64(cap(m.data)) + messageBytes }
