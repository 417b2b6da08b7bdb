package swarm

import (
	"hash/crc32"

	"gobtl/btl"
)

// Every fifth message that comes is kept, or its rear half, until some more have been; then it must
// be what it was.

// keeps is how many messages a life keeps.
const keeps = 8

// keptMessages are what a life keeps.
type keptMessages struct {
	places [keeps]keptMessage
	came   int
}

type keptMessage struct {
	kept btl.Kept
	sum  uint32
	size int
}

// keep keeps a message that comes at end e, every now and then, in the place of an earlier one.
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

// judge looks whether what is kept is as it was.
func (p *keptMessage) judge(e *end) {
	b := p.kept.Bytes()
	if len(b) != p.size || crc32.ChecksumIEEE(b) != p.sum {
		e.w.fail("%s: %d bytes that were kept have changed", e, p.size)
	}
}
