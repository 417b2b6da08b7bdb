package pml

// keptMax is the maximum number of free buffers in each size class of the pool, and of free
// Messages.
const keptMax = 256

// keptBytesMax is the maximum total size, in bytes, of the free buffers in each size class of the
// pool.
const keptBytesMax = 8 << 20

// The type "memory" is a pool of Messages and of data buffers. The capacity of each buffer is a
// power of two.
type memory struct {
	buffers  [22][][]byte
	messages []*Message
}

func (y *memory) get(n int) *Message {
	var m *Message
	if last := len(y.messages) - 1; last >= 0 {
		m, y.messages = y.messages[last], y.messages[:last]
	} else {
		m = &Message{}
	}
	if n > 0 {
		m.data = y.take(n)
	}
	return m
}

func (y *memory) free(m *Message) {
	if len(y.messages) < keptMax {
		*m = Message{gone: true}
		y.messages = append(y.messages, m)
	}
}
