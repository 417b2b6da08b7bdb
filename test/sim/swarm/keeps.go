package swarm

import (
	"hash/crc32"

	"gobtl/btl"
)

// The application keeps every fifth message, or its second half, until some more are kept, and the
// message must not change until then.

// keeps is the number of messages that a module keeps.
const keeps = 8

// keptMessages holds the messages that a module keeps.
type keptMessages struct {
	places [keeps]keptMessage
	came   int
}

type keptMessage struct {
	kept btl.Kept
	sum  uint32
	size int
}

// keep keeps some of the messages that arrive at the endpoint e, in place of earlier ones.
func (l *life) keep(e *end, data []byte) {
	const every = 5
	k := &l.kept
	k.came++
	if k.came%every != 0 || l.closed {
		return
	}
	p := &k.places[k.came/every%keeps]
	p.judge(e)
	p.kept.Release()
	if k.came%(2*every) == 0 {
		data = data[len(data)/2:]
	}
	p.size, p.sum = len(data), crc32.ChecksumIEEE(data)
	if err := l.mod.Keep(&p.kept, data); err != nil {
		l.w.fail("%s: Keep: %w", e, err)
	}
}

// judge checks that a kept message has not changed.
func (p *keptMessage) judge(e *end) {
	b := p.kept.Bytes()
	if len(b) != p.size || crc32.ChecksumIEEE(b) != p.sum {
		e.w.fail("%s: %d bytes that were kept have changed", e, p.size)
	}
}
