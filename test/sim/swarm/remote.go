package swarm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"

	"gobtl/btl"
)

// The constants below are the kinds of remote operations whose coverage is counted.
const (
	opNotice = iota // delivered
	opGet           // ended well
	opGetLost
	opAtomic
	opRefused
	opFence // behind which something arrived
	numOpKinds
)

// OpNames are the names of the kinds of operations.
var OpNames = [numOpKinds]string{
	"notice", "get", "get of a region withdrawn meanwhile", "atomic", "operation refused", "fence",
}

const tagNotice btl.Tag = 100

// library holds memory that peers may read and that never changes, and numbers that peers may
// change.
type library struct {
	life   *life
	mem    []byte
	r      *btl.Region
	closed bool
	all    []byte // the numbers
	image  []byte // as they were when they were withdrawn
	counts *btl.Region
	// For each number, the fields count the accepted and the successful adds, and hold the values
	// that were returned.
	tried, done [numCounters]uint64
	found       [numCounters]map[uint64]*message
}

const (
	numCounters  = 16
	libraryBytes = 50_000
)

// openLibrary exposes a library of the module.
func (l *life) openLibrary() {
	w := l.w
	b := &library{life: l, all: make([]byte, 8*numCounters)}
	at := w.d.IntN(len(block) - libraryBytes)
	b.mem = bytes.Clone(block[at:][:libraryBytes])
	l.random.full = true
	r, err := l.mod.Expose(b.mem, btl.RemoteRead)
	counts, err2 := l.mod.Expose(b.all, btl.RemoteAtomic)
	l.random.full = false
	if err = errors.Join(err, err2); err != nil {
		if !errors.Is(err, btl.ErrAgain) && !l.closing {
			w.fail("node %s: Expose: %w", l.host.node.Name(), err)
		}
		return
	}
	b.r, b.counts = r, counts
	l.library = b
}

// closeLibrary withdraws the library, and opens another one. Reads that began before the library
// was withdrawn must have succeeded, and later reads must fail.
func (l *life) closeLibrary() {
	b := l.library
	if b == nil || l.closed {
		return
	}
	b.closed = true
	b.r.Close()
	b.counts.Close()
	for i := range b.mem {
		b.mem[i] = canary
	}
	l.libraries = append(l.libraries, b)
	l.library = nil
	b.judge()
	b.image = bytes.Clone(b.all)
	l.openLibrary()
}

// remote describes the expected effect of a get or an atomic operation.
type remote struct {
	library *library
	// A get has memory of the caller with guards around it, and the expected content.
	into, want []byte
	sum        uint32 // of into, when it had ended
	// An atomic operation has a number, and may return the old value.
	counter int
	fetch   bool
	bad     bool // the peer must refuse it
}

// sendNotice sends a valid put with a notification.
func (e *end) sendNotice(size int) bool {
	e.learn()
	r := e.anyRegion(func(r *region) bool {
		return !r.closed && r.rights&btl.RemoteNotify != 0 && r.next < len(r.mem)
	})
	if r == nil {
		return true
	}
	size = min(size, len(r.mem)-r.next)
	p := &put{region: r, offset: r.next, must: true, notice: true}
	if !e.postPut(p, r.r.Handle(), uint64(p.offset), size) {
		return false
	}
	r.next += size
	return true
}

// noticeOf is the content of a put's notification.
func noticeOf(m *message) []byte {
	b := binary.LittleEndian.AppendUint64(nil, m.id)
	return append(b, body(m.id, int(m.id%57))...)
}

// onNotice is the handler of notifications.
func (l *life) onNotice(ep *btl.Endpoint, _ btl.Tag, data []byte) {
	w := l.w
	e := l.endOf(ep)
	if e.over || l.closed {
		w.fail("%s: a notice after the end", e)
	}
	if e.learn(); e.tainted() {
		return
	}
	m := w.ledger.claimed(data)
	switch {
	case m == nil || m.put == nil || !m.put.notice:
		w.fail("%s: a notice of no put: %x", e, data)
		return
	case !bytes.Equal(data, noticeOf(m)):
		w.fail("%s: its notice says %x", m, data)
	case m.from.peer != l || m.from.peerTag != e.tag:
		w.fail("%s: its notice came to %s", m, e)
	}
	p := m.put
	p.notified++
	switch {
	case p.notified > 1:
		w.fail("%s: %d notices", m, p.notified)
	case !p.must || errors.Is(m.err, btl.ErrRemoteAccess):
		w.fail("%s: a notice, and it had no right to, or was refused", m)
	case !p.region.closed && !w.altered(l.host.index) &&
		!bytes.Equal(p.region.mem[p.offset:][:m.size], body(m.id, m.size)):
		w.fail("%s: a notice, and its bytes are not there", m)
	}
	w.res.Ops[opNotice]++
	m.from.checkFences(m)
	l.respond(e, m.size)
}

// sendGet sends a get, which is mostly valid.
func (e *end) sendGet(size int) bool {
	w := e.w
	e.learn()
	if e.peer == nil || e.peer.library == nil {
		return true
	}
	b := e.peer.library
	size = min(size, libraryBytes, int(e.life.mod.Config().FragmentBytesMax),
		int(b.life.mod.Config().FragmentBytesMax))
	g := &remote{library: b, bad: w.d.chance(0.05)}
	offset, handle := uint64(w.d.IntN(libraryBytes-size+1)), b.r.Handle()
	switch {
	case g.bad && w.d.chance(0.5):
		handle = b.counts.Handle()
		offset = 0
	case g.bad:
		offset = libraryBytes - uint64(size) + 1
	default:
		g.want = bytes.Clone(b.mem[offset:][:size])
	}
	g.into = make([]byte, size+2*guardBytes)
	for i := range g.into {
		g.into[i] = canary
	}
	m := w.ledger.enter(e, 0, size)
	m.put = &put{remote: g}
	e.life.random.full = true
	f, err := e.ep.PrepareGet(g.into[guardBytes:][:size:size], handle, offset)
	e.life.random.full = false
	if err != nil {
		return e.refused(m, err)
	}
	return e.send(f, m)
}

// sendAtomics sends one or several adds of one, which may share packets.
func (e *end) sendAtomics() bool {
	count := 1
	if n := len(e.msgs); n%2 == 0 {
		count += n % 11
	}
	for range count {
		if e.over || !e.sendAtomic() {
			return false
		}
	}
	return true
}

// sendAtomic sends an atomic add of one.
func (e *end) sendAtomic() bool {
	w := e.w
	e.learn()
	if e.peer == nil || e.peer.library == nil {
		return true
	}
	b := e.peer.library
	a := &remote{
		library: b, counter: w.d.IntN(numCounters), fetch: w.d.chance(0.5), bad: w.d.chance(0.05),
	}
	op := btl.Atomic{
		Target: b.counts.Handle(), Offset: uint64(8 * a.counter), Action: btl.ActionAdd,
		WidthBytes: 8, Operand: 1, Fetch: a.fetch,
	}
	if a.bad {
		if op.Offset += 4; w.d.chance(0.5) {
			op.Target, op.Offset = b.r.Handle(), 0
		}
	}
	m := w.ledger.enter(e, 0, op.WidthBytes)
	m.put = &put{remote: a}
	e.life.random.full = true
	f, err := e.ep.PrepareAtomic(op)
	e.life.random.full = false
	if err != nil {
		return e.refused(m, err)
	}
	if !e.send(f, m) {
		return false
	}
	if !a.bad {
		b.tried[a.counter]++
	}
	return true
}

// fence makes all later operations wait for all earlier ones.
func (e *end) fence() {
	e.ep.Fence(e.w.net.Now())
	e.fences = append(e.fences, len(e.msgs))
}

// checkFences checks, when a message has arrived, that all operations before the last fence are
// done. A refused operation may be done before its sender is told, because the fabric may still use
// its memory.
func (e *end) checkFences(m *message) {
	w := e.w
	until := 0
	for len(e.fences) > 0 && e.fences[0] <= m.pos {
		until = e.fences[0]
		e.fences = e.fences[1:]
		w.res.Ops[opFence]++
	}
	for ; e.fencedTo < until; e.fencedTo++ {
		o := w.ledger.msgs[e.msgs[e.fencedTo]]
		switch {
		case o.err != nil || o.lost || o.tooLong():
		case o.put != nil && o.put.missing(o),
			o.put != nil && o.put.remote != nil && !o.ended,
			o.put == nil && o.size >= smallBytes && o.tag <= handledTags && o.delivered != 1 &&
				!o.cutOff():
			w.fail("%s arrived from behind a fence, and %s was before it and is not done", m, o)
		}
	}
}

// judge checks the end of a get or an atomic operation, and returns true if no other check is
// needed.
func (g *remote) judge(w *world, m *message) bool {
	b := g.library
	switch {
	case errors.Is(m.err, btl.ErrRemoteAccess):
		w.res.Ops[opRefused]++
		var why *btl.AccessError
		if !errors.As(m.err, &why) {
			w.fail("%s ended with %v, which does not say what was refused", m, m.err)
		}
		if !g.bad && !b.closed {
			w.fail("%s ended with %v, and it was right", m, m.err)
		}
		if g.want != nil {
			w.res.Ops[opGetLost]++
		}
		return true
	case m.err != nil:
		return false
	case g.bad:
		w.fail("%s ended well, and it had no right to", m)
	case g.into != nil:
		w.res.Ops[opGet]++
		got := g.into[guardBytes:][:m.size]
		if !w.altered(m.from.life.host.index) && !bytes.Equal(got, g.want) {
			w.fail("%s ended well, and its bytes are not those of the region", m)
		}
	default:
		w.res.Ops[opAtomic]++
		b.done[g.counter]++
		if g.fetch {
			b.find(w, m, g)
		}
	}
	return true
}

// find records the value that an atomic operation has returned, which no other operation may
// return.
func (b *library) find(w *world, m *message, g *remote) {
	if w.altered(b.life.host.index) || w.altered(m.from.life.host.index) {
		return
	}
	if b.found[g.counter] == nil {
		b.found[g.counter] = map[uint64]*message{}
	}
	if other := b.found[g.counter][m.value]; other != nil {
		w.fail("%s and %s both found %d in number %d", m, other, m.value, g.counter)
	}
	if m.value >= b.tried[g.counter] {
		w.fail("%s found %d in number %d, %d adds were sent", m, m.value, g.counter,
			b.tried[g.counter])
	}
	b.found[g.counter][m.value] = m
}

// judge compares the numbers with the adds, where each add was done at most once, and each
// successful add exactly once.
func (b *library) judge() {
	w := b.life.w
	if w.altered(b.life.host.index) {
		return
	}
	for i := range numCounters {
		got := binary.NativeEndian.Uint64(b.all[8*i:])
		if got > b.tried[i] || got < b.done[i] {
			w.fail("node %s life %d: number %d is %d: %d adds were sent, %d have ended well",
				b.life.host.node.Name(), b.life.number, i, got, b.tried[i], b.done[i])
		}
	}
}

// judgeClosed checks that nothing was written after the library was withdrawn.
func (b *library) judgeClosed() {
	if !bytes.Equal(b.all, b.image) {
		b.life.w.fail("node %s life %d: a number was changed after its region was closed",
			b.life.host.node.Name(), b.life.number)
	}
}

// settle records the content of a get's memory when the get ends.
func (g *remote) settle() {
	if g.into != nil {
		g.sum = crc32.ChecksumIEEE(g.into)
	}
}

// judgeEnd checks that nothing was written to the memory of a get after its end, or around the
// memory.
func (g *remote) judgeEnd(w *world, m *message) {
	if g.into == nil || !m.ended || m.lost || w.altered(m.from.life.host.index) {
		return
	}
	if g.sum != crc32.ChecksumIEEE(g.into) {
		w.fail("%s: its memory was written after it had ended", m)
	}
	untouched := func(b []byte) bool { return bytes.Count(b, []byte{canary}) == len(b) }
	if !untouched(g.into[:guardBytes]) || !untouched(g.into[len(g.into)-guardBytes:]) {
		w.fail("%s: memory around it was written", m)
	}
}
