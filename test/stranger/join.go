package stranger

// Packs of operations, section 18: what asks for little shares a packet.

// joins says whether operations may share one in this connection.
func (c *conn) joins() bool { return c.features&(featOps|featJoin) == featOps|featJoin }

// joinable says whether a message may be a record of such a Pack.
func (m *message) joinable() bool {
	return m.bare && m.op != nil && (m.op.code == 5 || m.op.code == 6)
}

// join puts the operations that wait into one Pack; nil if there is one alone, or the dice say so.
func (c *conn) join() *segment {
	if !c.joins() || len(c.queue) < 2 || !c.queue[1].joinable() || c.h.dice.IntN(8) == 0 {
		return nil
	}
	s := &segment{p: &packet{kind: kPack}}
	for left := c.room() - 32; len(c.queue) > 0 && len(s.msgs) < 256; {
		m := c.queue[0]
		if !m.joinable() || 12+len(m.data) > left {
			break
		}
		left -= 12 + len(m.data)
		number := m.op.operation
		if m.op.code == 5 && m.data[34] == 0 { // it wants no value
			number = 0
		}
		b := append(le.AppendUint32(nil, number), m.op.code, byte(len(s.msgs)), 0, 0)
		s.p.records = append(s.p.records, record{asks: true, data: append(b, m.data...)})
		s.msgs = append(s.msgs, m)
		m.cut = true
		c.queue = c.queue[1:]
	}
	c.joined++
	return s
}

// acceptJoined does all that a Pack asks for, or nothing: then it names one that is refused.
func (c *conn) acceptJoined(p *packet) (reason byte, of []byte) {
	if !c.joins() {
		c.h.wrong("a Pack of operations without the feature")
		return refuseNow, nil
	}
	var why [][]byte
	for _, r := range p.records {
		if r.data[4] == 5 {
			if _, reason := c.mayChange(r.data[8:]); reason != 0 {
				why = append(why, []byte{r.data[5], reason})
			}
		}
	}
	if len(why) > 0 {
		return 7, why[c.h.dice.IntN(len(why))]
	}
	c.inJoined++
	for _, r := range p.records {
		number, b := le.Uint32(r.data), r.data[8:]
		if r.data[4] == 6 {
			c.onAnswerOf(number, 6, b)
			continue
		}
		if number == 0 && b[34] == 1 || number != 0 && b[34] == 0 {
			c.h.wrong("an Atomic in a Pack has number %d, fetch %d", number, b[34])
		}
		at, _ := c.mayChange(b)
		c.change(at, number, b)
	}
	return 0, nil
}

// takeOut fails the operation that a Nack names, and returns what is left of its Pack; false if
// there is no such place in it.
func (s *segment) takeOut(c *conn, p *packet) bool {
	if s.p.kind != kPack || !s.p.records[0].asks {
		return false
	}
	for i, r := range s.p.records {
		if r.data[5] != p.payload[0] {
			continue
		}
		m, reason := s.msgs[i], p.payload[1]
		if reason != 5 && reason != 6 {
			reason = 1
		}
		rest := append([]record(nil), s.p.records[:i]...)
		s.msgs = append(append([]*message(nil), s.msgs[:i]...), s.msgs[i+1:]...)
		rest = append(rest, s.p.records[i+1:]...)
		if s.p = (&packet{kind: kPack, conn: s.p.conn, seq: s.p.seq, records: rest}); len(rest) == 0 {
			s.p = &packet{kind: kFrag, tag: tagVoid, conn: s.p.conn, seq: s.p.seq}
		}
		c.fail(m, refused{reason})
		c.closed(m)
		s.out++
		c.takenOut = max(c.takenOut, s.out)
		return true
	}
	return false
}
