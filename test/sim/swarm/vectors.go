package swarm

import "gobtl/btl"

// Every fourth message from the application's memory, and every fourth put without a notification,
// has its memory in several segments. The choice is not random, so that the draws of old seeds do
// not change.

func (m *message) inPieces() bool { return m.number%4 == 0 }

// cutUp splits the memory of a message into segments, whose number and sizes depend on the
// message's number.
func cutUp(mem []byte, m *message) (pieces [][]byte) {
	number := m.number / 4
	for n := 1 + number%btl.PiecesMax; n > 1; n-- {
		k := len(mem) * (1 + number%3) / (n + 2)
		pieces, mem = append(pieces, mem[:k]), mem[k:]
	}
	return append(pieces, mem)
}

// prepare prepares a message with the memory mem.
func (e *end) prepare(tag btl.Tag, m *message, mem []byte) (*btl.Fragment, error) {
	if m.inPieces() {
		return e.ep.PreparePieces(tag, cutUp(mem, m)...)
	}
	return e.ep.Prepare(tag, mem)
}

// preparePut prepares a put of the bytes of a message.
func (e *end) preparePut(m *message, handle btl.Handle, offset uint64) (*btl.Fragment, error) {
	switch {
	case m.put.notice:
		return e.ep.PreparePutNotice(m.mem, handle, offset, tagNotice, noticeOf(m))
	case m.inPieces():
		return e.ep.PreparePutPieces(handle, offset, cutUp(m.mem, m)...)
	}
	return e.ep.PreparePut(m.mem, handle, offset)
}
