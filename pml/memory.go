package pml

// keptMax bounds the idle buffers of each size, and the idle Messages.
const keptMax = 256

// keptBytesMax bounds the idle buffers of each size in bytes.
const keptBytesMax = 8 << 20

// memory recycles the memory of received messages for later messages, by size in powers of two.
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
	if n > 0 {
		m.data = y.take(n)
	}
	return m
}

// free recycles a Message that is no longer in use.
func (y *memory) free(m *Message) {
	if len(y.messages) < keptMax {
		*m = Message{gone: true}
		y.messages = append(y.messages, m)
	}
}
