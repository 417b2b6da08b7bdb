package swarm

import (
	"bytes"
	"errors"

	"gobtl/btl"
)

// region is memory that a module exposes, within memory that is not exposed.
type region struct {
	life   *life
	all    []byte // with guards on both sides
	mem    []byte
	r      *btl.Region
	rights btl.Rights
	next   int // where the next put may go: each byte is the target of one put at most
	puts   []*message
	closed bool
	image  []byte // as it was when it was closed
}

const (
	guardBytes = 64
	canary     = 0xC5
	scribble   = 0x3C // what the owner writes over a put that has ended
)

// expose exposes another region of the module.
func (l *life) expose() {
	w := l.w
	size := w.d.size(1, 200_000)
	r := &region{life: l, all: make([]byte, size+2*guardBytes)}
	for i := range r.all {
		r.all[i] = canary
	}
	r.mem = r.all[guardBytes : guardBytes+size : guardBytes+size]
	if w.d.chance(0.85) {
		r.rights = btl.RemoteWrite | btl.RemoteNotify
	}
	l.random.full = true
	var err error
	r.r, err = l.mod.Expose(r.mem, r.rights)
	l.random.full = false
	if err != nil {
		if !errors.Is(err, btl.ErrAgain) && !l.closing {
			w.fail("node %s: Expose: %w", l.host.node.Name(), err)
		}
		return
	}
	l.regions = append(l.regions, r)
}

// withdraw closes a region, which must not change from then on.
func (r *region) withdraw() {
	if r.closed || r.life.closed {
		return
	}
	r.closed = true
	r.r.Close()
	r.image = bytes.Clone(r.all)
	for _, m := range r.puts {
		if !m.ended {
			m.put.may = true
		}
	}
}

// put is the expected effect of a put.
type put struct {
	region *region // nil: there is none that it may change
	offset int
	must   bool // succeed, if the connection does not fail
	may    bool // fail or succeed: the region was closed meanwhile
	owned  bool // the owner has written over it since

	notice   bool
	notified int
	remote   *remote // it is no put at all, but a get or an atomic operation
}

// judge checks the end of a put, and returns true if no other check is needed.
func (p *put) judge(w *world, m *message) bool {
	if p.remote != nil {
		return p.remote.judge(w, m)
	}
	switch {
	case m.err == nil:
		if !p.must && !p.may {
			w.fail("%s ended well, and it had no right to", m)
			return true
		}
		if p.notice && p.notified != 1 {
			w.fail("%s ended well, and gave %d notices", m, p.notified)
		}
		p.check(w, m)
		return true
	case errors.Is(m.err, btl.ErrRemoteAccess):
		if p.notified > 0 {
			w.fail("%s was refused, and gave a notice", m)
		}
		if p.must && !p.may {
			w.fail("%s ended with %v, and it was right", m, m.err)
		}
		return true
	}
	return false
}

// check compares the target of a successful put with the put's bytes, and overwrites the target so
// that a late copy is detected.
func (p *put) check(w *world, m *message) {
	r := p.region
	if r == nil || r.closed || w.altered(r.life.host.index) {
		return
	}
	got := r.mem[p.offset:][:m.size]
	if !bytes.Equal(got, body(m.id, m.size)) {
		w.fail("%s ended well, and its bytes are not there", m)
	}
	if m.number%2 == 0 && !r.life.closed {
		p.owned = true
		for i := range got {
			got[i] = scribble
		}
	}
}

// missing reports whether a put that should be complete is not. If packets may be corrupted
// unnoticed, a put may have written to the wrong place.
func (p *put) missing(m *message) bool {
	if p.notice && p.must && !p.may && p.notified == 0 && m.err == nil && !p.region.closed &&
		!m.from.w.altered(p.region.life.host.index) {
		return true
	}
	if !p.must || p.may || p.owned || m.err != nil || p.region == nil || p.region.closed ||
		m.from.w.altered(p.region.life.host.index) {
		return false
	}
	return !bytes.Equal(p.region.mem[p.offset:][:m.size], body(m.id, m.size))
}

// judge compares the whole region and its guards with the possible effects of the puts.
func (r *region) judge() {
	w := r.life.w
	fail := func(at int, why string) {
		w.fail("region of node %s life %d, %d bytes: byte %d: %s", r.life.host.node.Name(),
			r.life.number, len(r.mem), at-guardBytes, why)
	}
	if r.closed {
		if !bytes.Equal(r.all, r.image) {
			fail(0, "changed after the region was closed")
		}
		return
	}
	if w.altered(r.life.host.index) {
		r.judgeGuards(fail)
		return
	}
	at := 0
	for _, m := range r.puts {
		start := guardBytes + m.put.offset
		untouched(r.all[at:start], at, fail)
		r.judgePut(m, r.all[start:][:m.size], start, fail)
		at = start + m.size
	}
	untouched(r.all[at:], at, fail)
}

func (r *region) judgeGuards(fail func(int, string)) {
	untouched(r.all[:guardBytes], 0, fail)
	n := len(r.all) - guardBytes
	untouched(r.all[n:], n, fail)
}

func untouched(b []byte, at int, fail func(int, string)) {
	for i, c := range b {
		if c != canary {
			fail(at+i, "changed, and no put was aimed there")
			return
		}
	}
}

func (r *region) judgePut(m *message, got []byte, at int, fail func(int, string)) {
	want := body(m.id, m.size)
	for i, c := range got {
		switch {
		case m.put.owned && c != scribble:
			fail(at+i, "changed after "+m.String()+" had ended")
			return
		case m.put.owned || c == want[i]:
		case m.err == nil && m.queued && !m.lost && !m.from.tainted():
			fail(at+i, m.String()+" ended well, and this byte is not its")
			return
		case c != canary && c != 0: // zeros stand where something else had landed
			fail(at+i, "is neither as before nor what "+m.String()+" writes")
			return
		}
	}
}

// altered reports whether packets to node i may have been corrupted unnoticed.
func (w *world) altered(i int) bool {
	for j := range w.hosts {
		if w.taint[i][j] {
			return true
		}
	}
	return false
}

// sendPut sends a valid put.
func (e *end) sendPut(size int) bool {
	e.learn()
	r := e.anyRegion(func(r *region) bool {
		return !r.closed && r.rights&btl.RemoteWrite != 0 && r.next < len(r.mem)
	})
	if r == nil {
		return true
	}
	size = min(size, len(r.mem)-r.next)
	p := &put{region: r, offset: r.next, must: true}
	if !e.postPut(p, r.r.Handle(), uint64(p.offset), size) {
		return false
	}
	r.next += size
	return true
}

// anyRegion returns a region of the peer with the given properties, or nil if there is none.
func (e *end) anyRegion(ok func(*region) bool) *region {
	if e.peer == nil || len(e.peer.regions) == 0 {
		return nil
	}
	n := len(e.peer.regions)
	at := e.w.d.IntN(n)
	for i := range n {
		if r := e.peer.regions[(at+i)%n]; ok(r) {
			return r
		}
	}
	return nil
}

// sendBadPut sends a put that the peer must refuse.
func (e *end) sendBadPut(size int) bool {
	w := e.w
	e.learn()
	size = max(1, size)
	handle, offset := btl.Handle(w.d.Uint64()|1<<63), uint64(w.d.IntN(1000))
	switch w.d.IntN(4) {
	case 0: // nobody's handle
	case 1:
		if r := e.anyRegion(func(r *region) bool { return r.closed }); r != nil {
			handle = r.r.Handle()
		}
	case 2:
		if r := e.anyRegion(func(r *region) bool { return r.rights == 0 }); r != nil {
			handle, offset = r.r.Handle(), 0
		}
	default:
		if r := e.anyRegion(func(r *region) bool { return !r.closed }); r != nil {
			handle = r.r.Handle()
			end := uint64(len(r.mem))
			beyond := [...]uint64{end, end + 1, 1 << 32, ^uint64(0) - uint64(size)}
			if offset = beyond[w.d.IntN(len(beyond))]; w.d.chance(0.3) {
				size = 1
			}
		}
	}
	return e.postPut(&put{}, handle, offset, size)
}

func (e *end) postPut(p *put, handle btl.Handle, offset uint64, size int) bool {
	w := e.w
	m := w.ledger.enter(e, 0, size)
	m.put = p
	m.mem = w.ledger.takeMem(size)
	copy(m.mem, body(m.id, size))
	f, err := e.preparePut(m, handle, offset)
	if err != nil {
		return e.refused(m, err)
	}
	return e.send(f, m)
}
