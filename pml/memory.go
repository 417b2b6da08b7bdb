package pml

// keptMax is the largest number of free buffers of each size, and of free Messages.
const keptMax = 256

// keptBytesMax is the largest total size of the free buffers of each size class.
const keptBytesMax = 8 << 20

// memory is a pool of Messages and of data buffers, whose capacities are powers of two.
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
