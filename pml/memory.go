package pml

import "math/bits"

// keptMax bounds the idle buffers of each size, and the idle Messages.
const keptMax = 256

// memory keeps the memory of messages that have been received, for those to come: by size, powers
// of two.
type memory struct {
	buffers  [22][][]byte
	messages []*Message
}

// get returns a Message with data for n bytes, none for 0.
func (y *memory) get(n int) *Message {
	var m *Message
	if last := len(y.messages) - 1; last >= 0 {
		m, y.messages = y.messages[last], y.messages[:last]
	} else {
		m = &Message{}
	}
	if n == 0 {
		return m
	}
	m.class = bits.Len(uint(n - 1))
	m.data = y.take(n)
	m.data = m.data[:cap(m.data)]
	return m
}

// put takes back the data of a Message.
func (y *memory) put(m *Message) {
	if cap(m.data) == 0 {
		return
	}
	if idle := &y.buffers[m.class]; len(*idle) < keptMax {
		*idle = append(*idle, m.data[:cap(m.data)])
	}
}

// free takes back a Message that nobody has.
func (y *memory) free(m *Message) {
	if len(y.messages) < keptMax {
		*m = Message{gone: true}
		y.messages = append(y.messages, m)
	}
}
