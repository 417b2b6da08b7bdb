package swarm

import "gobtl/btl"

// Every fourth message that is sent from the application's memory, and every fourth put, lies in
// several pieces; every fourth put with a notice and every fourth get has several sections. That is
// no draw, so that a plan means what it did.

func (m *message) inPieces() bool { return m.number%4 == 0 }

// cutUp cuts the memory of a message into pieces, as many and as long as its number says.
func cutUp(mem []byte, m *message) (pieces [][]byte) {
	number := m.number / 4
	for n := 1 + number%btl.PiecesMax; n > 1; n-- {
		k := len(mem) * (1 + number%3) / (n + 2)
		pieces, mem = append(pieces, mem[:k]), mem[k:]
	}
	return append(pieces, mem)
}

// prepare prepares a message that lies in mem.
func (e *end) prepare(tag btl.Tag, m *message, mem []byte) (*btl.Fragment, error) {
	if m.inPieces() {
		return e.ep.PreparePieces(tag, cutUp(mem, m)...)
	}
	return e.ep.Prepare(tag, mem)
}

// preparePut prepares a put of a message's bytes.
func (e *end) preparePut(m *message, handle btl.Handle, offset uint64) (*btl.Fragment, error) {
	switch {
	case m.put.notice && m.inPieces() && m.size > 0:
		return e.ep.PreparePutSectionsNotice(e.sections(m, m.mem, handle, offset), tagNotice, noticeOf(m))
	case m.put.notice:
		return e.ep.PreparePutNotice(m.mem, handle, offset, tagNotice, noticeOf(m))
	case m.inPieces():
		return e.ep.PreparePutPieces(handle, offset, cutUp(m.mem, m)...)
	}
	return e.ep.PreparePut(m.mem, handle, offset)
}

// sections cuts an operation of a message into sections, from the offset on one behind the other.
func (e *end) sections(m *message, mem []byte, handle btl.Handle, offset uint64) (
	sections []btl.Section,
) {
	most, from := e.life.mod.Config().FragmentsMax/4-1, offset
	for _, piece := range cutUp(mem, m) {
		switch n := len(sections); {
		case len(piece) == 0:
		case n == most: // what is left is in the last one
			last := &sections[n-1]
			last.Mem = mem[last.Offset-from:]
		default:
			sections = append(sections, btl.Section{Mem: piece, Target: handle, Offset: offset})
		}
		offset += uint64(len(piece))
	}
	return sections
}

// prepareGet prepares a get of a message.
func (e *end) prepareGet(m *message, mem []byte, handle btl.Handle, offset uint64) (
	*btl.Fragment, error,
) {
	if m.inPieces() && len(mem) > 0 {
		return e.ep.PrepareGetSections(e.sections(m, mem, handle, offset))
	}
	return e.ep.PrepareGet(mem, handle, offset)
}
