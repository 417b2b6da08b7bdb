package scenario

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"gobtl/btl"
	"gobtl/frag"
)

// The constants below are limits for messages of applications.
const (
	sizeMax  = 1 << 20
	countMax = 2000
)

// msgState is the state of a send.
type msgState uint8

const (
	statePending   msgState = iota
	stateDone               // acknowledged, or gone by the fast path
	stateFailed             // with an error
	stateRefused            // not accepted
	stateForgotten          // its sender has crashed
)

var msgStateNames = [...]string{"pending", "done", "failed", "refused", "forgotten"}

func (s msgState) String() string { return msgStateNames[s] }

// message is one send or put.
type message struct {
	route

	number  int
	life    int // of the receiver, that it is meant for
	size    int
	tag     btl.Tag
	put     bool
	memory  []byte // where a put goes, if that is in a region
	region  *btl.Region
	offset  int        // in region; a put that does not fit may begin to be written, all the same
	rivals  []*message // other puts that may write there meanwhile
	silent  bool       // Done is the last that is heard of it
	state   msgState
	err     error
	arrived bool
	side    *side
}

func (m *message) name() string { return fmt.Sprintf("m%d", m.number) }

// content returns the bytes of a message, which are always the same for the same message.
func (m *message) content(b []byte) []byte {
	b = b[:0]
	for i := range m.size {
		b = append(b, byte(m.number+i*7+i>>8))
	}
	for i := range min(4, m.size) { // little-endian
		b[i] = byte(m.number >> (8 * i))
	}
	return b
}

// latest returns the newest endpoint of a route.
func (w *world) latest(r route) (*side, error) {
	s := w.sides[r]
	if s == nil || w.node(r.from).Mod == nil || w.node(r.from).side(s.ep) == nil {
		return nil, w.errorf("%s has no endpoint to %s", r.from, r.to)
	}
	return s, nil
}

// ways lists the ways of sending.
var ways = []string{"signal", "alloc", "prepare", "now"}

func (p *parser) parseConnect() func(*world) error {
	r := p.route()
	life := int(p.w.keyNumber("life", 0, 1, 100))
	return func(w *world) error {
		which := life
		if which == 0 {
			which = len(w.node(r.to).lives)
		}
		return w.connect(r, which)
	}
}

// connect connects to an incarnation of a node.
func (w *world) connect(r route, life int) error {
	from, to := w.node(r.from), w.node(r.to)
	if life < 1 || life > len(to.lives) {
		return w.errorf("%s has had %d lives", r.to, len(to.lives))
	}
	if from.Mod == nil {
		return w.errorf("%s is down", r.from)
	}
	ep, err := from.Mod.Connect(w.net.Now(), to.lives[life-1])
	if err != nil {
		from.note("connect to %s: %s", r.to, errorName(err))
		return nil
	}
	from.note("connect to %s", r.to)
	if from.side(ep) == nil {
		from.addSide(ep, r.to)
	}
	w.sides[r] = from.side(ep)
	from.Kick()
	return nil
}

// parseLink parses a connection setup whose packets are not written to the trace, and after which
// the time is a round number.
func (p *parser) parseLink() func(*world) error {
	r := p.route()
	return func(w *world) error {
		w.trace.Mute()
		err := w.connect(r, len(w.node(r.to).lives))
		if err == nil {
			err = w.runUntil(w.idle, durationMax)
		}
		if err == nil {
			at := int64(w.net.Now()) + int64(time.Millisecond)
			err = w.runFor(time.Duration(at/1e6*1e6 - int64(w.net.Now())))
		}
		w.trace.Unmute()
		if s := w.sides[r]; err == nil && (s == nil || !s.connected) {
			err = w.errorf("not connected")
		}
		w.node(r.from).note("linked to %s", r.to)
		return err
	}
}

func (p *parser) parseSend() func(*world) error {
	m := message{route: p.route()}
	m.size = int(p.w.nextNumber("a size", 0, sizeMax))
	m.tag = btl.Tag(p.w.keyNumber("tag", 1, 0, int64(btl.TagMax)))
	count := int(p.w.keyNumber("count", 1, 1, countMax))
	way := "signal"
	if s, ok := p.w.key("way"); ok {
		way = s
		p.oneOf("way", s, ways)
	}
	return func(w *world) error {
		return w.sendMany(m, count, func(m *message) (btl.Status, error) { return w.send(m, way) })
	}
}

func (p *parser) oneOf(what, s string, list []string) {
	for _, x := range list {
		if s == x {
			return
		}
	}
	p.w.fail("%s %q is none of %v", what, s, list)
}

// send sends a message in one of the ways.
func (w *world) send(m *message, way string) (btl.Status, error) {
	ep := m.side.ep
	w.scratch = m.content(w.scratch)
	if way == "now" {
		m.silent = true
		return btl.Done, ep.SendImmediate(w.net.Now(), m.tag, w.scratch)
	}
	var f *btl.Fragment
	var err error
	if way == "prepare" {
		f, err = ep.Prepare(m.tag, bytes.Clone(w.scratch))
	} else if f, err = ep.Alloc(m.tag, m.size); err == nil {
		copy(f.Bytes(), w.scratch)
	}
	if err != nil {
		return 0, err
	}
	f.Signal = way == "signal"
	return w.sendFragment(m, f)
}

func (w *world) sendFragment(m *message, f *btl.Fragment) (btl.Status, error) {
	f.OnDone = func(_ *btl.Fragment, err error) { w.ended(m, err) }
	st, err := m.side.ep.Send(w.net.Now(), f)
	if err != nil {
		if e := m.side.ep.Free(f); e != nil {
			w.fail("%s: freed after %w: %w", m.name(), err, e)
		}
	}
	m.silent = m.silent || st == btl.Done
	return st, err
}

// sendMany sends several messages with equal options and different numbers.
func (w *world) sendMany(m message, count int, send func(*message) (btl.Status, error)) error {
	from, to := w.node(m.from), w.node(m.to)
	var err error
	if m.side, err = w.latest(m.route); err != nil {
		return err
	}
	if w.bytes += count * m.size; w.bytes > w.script.bytesMax {
		return w.errorf("more than %d bytes are sent in all", w.script.bytesMax)
	}
	m.life = len(to.lives)
	for range count {
		one := m
		one.number = len(w.msgs) + 1
		w.msgs = append(w.msgs, &one)
		st, err := send(&one)
		switch {
		case err != nil:
			one.state, one.err = stateRefused, err
		case st == btl.Done:
			one.state = stateDone
		}
		if count == 1 || err != nil {
			from.note("%s", one.describe())
		}
		if err != nil {
			break // the rest would fare the same
		}
	}
	if count > 1 {
		from.note("send to %s: m%d..m%d of %d B tag %d", m.to, len(w.msgs)-count+1, len(w.msgs), m.size,
			m.tag)
	}
	from.Kick()
	return nil
}

func (m *message) describe() string {
	what := fmt.Sprintf("send to %s: %s of %d B tag %d", m.to, m.name(), m.size, m.tag)
	if m.put {
		what = fmt.Sprintf("put to %s: %s of %d B", m.to, m.name(), m.size)
	}
	if m.state != statePending {
		what += ", " + m.state.String() + because(m.err)
	}
	return what
}

// The method ended is the OnDone of a send.
func (w *world) ended(m *message, err error) {
	if m.state != statePending {
		w.fail("%s ended twice: it was %v", m.name(), m.state)
	}
	m.state, m.err = stateDone, err
	if err != nil {
		m.state = stateFailed
	}
	w.node(m.from).note("%s %v%s", m.name(), m.state, because(err))
	if err != nil {
		return
	}
	if m.put {
		if !m.inPlace() {
			w.fail("%s is done, and its bytes are not in place", m.name())
		}
		m.arrived = true
	} else if !m.arrived && !w.arrivedAsAnother(m) {
		w.fail("%s is done and has not arrived", m.name())
	}
}

// arrivedAsAnother reports whether the method receive took a message for another message, because
// the message is too short to hold its number and both look alike.
func (w *world) arrivedAsAnother(m *message) bool {
	for _, o := range w.msgs {
		if o.arrived && o.state == statePending && !o.put && o.to == m.to && o.life == m.life &&
			o.tag == m.tag && m.size < 4 && bytes.Equal(o.content(nil), m.content(nil)) {
			m.arrived, o.arrived = true, false
			return true
		}
	}
	return false
}

// receive is the handler of every tag.
func (n *node) receive(_ *btl.Endpoint, tag btl.Tag, data []byte) {
	w := n.w
	n.arrived++
	for _, m := range w.msgs {
		if m.put || m.arrived || m.to != n.name || m.tag != tag || m.size != len(data) ||
			len(data) >= 4 && int(binary.LittleEndian.Uint32(data)) != m.number {
			continue
		}
		if w.scratch = m.content(w.scratch); !bytes.Equal(w.scratch, data) {
			continue
		}
		m.arrived = true
		n.note("got %s", m.name())
		switch {
		case m.state == stateRefused:
			w.fail("%s arrived, which was refused", m.name())
		case m.life != len(n.lives):
			w.fail("%s was for life %d of %s and arrived in life %d", m.name(), m.life, n.name,
				len(n.lives))
		}
		return
	}
	w.fail("%s got %d bytes with tag %d that nobody sent, or that it has already: %.16x", n.name,
		len(data), tag, data)
}

// checkMessages returns an error at the end if a message is not accounted for.
func (w *world) checkMessages() error {
	for _, m := range w.msgs {
		switch {
		case m.state == statePending:
			return w.errorf("%s never ended", m.name())
		case m.silent && m.state == stateDone && !m.arrived && m.side.end == "":
			return w.errorf("%s did not arrive, and its connection lives", m.name())
		}
	}
	return nil
}

func (p *parser) parsePut() func(*world) error {
	m := message{route: p.route(), put: true}
	m.size = int(p.w.nextNumber("a size", 0, sizeMax))
	region := int(p.w.keyNumber("region", 1, 1, 1<<16))
	offset := uint64(p.w.keyNumber("offset", 0, 0, 1<<62))
	count := int(p.w.keyNumber("count", 1, 1, countMax))
	handle, wrong := p.w.key("handle")
	if wrong && handle != "wrong" {
		p.w.fail("handle=%s is not handle=wrong", handle)
	}
	return func(w *world) error {
		to := w.node(m.to)
		if region > len(to.regions) {
			return w.errorf("%s has %d regions", m.to, len(to.regions))
		}
		r := to.regions[region-1]
		h := r.Handle()
		if wrong {
			h ^= 1 << 40
		}
		return w.sendMany(m, count, func(m *message) (btl.Status, error) {
			if mem := r.Bytes(); offset <= uint64(len(mem)) && m.size <= len(mem)-int(offset) {
				m.memory = mem[offset:][:m.size]
			}
			m.region, m.offset = r, int(offset)
			w.findRivals(m)
			f, err := m.side.ep.PreparePut(m.content(nil), h, offset)
			if err != nil {
				return 0, err
			}
			f.Signal = true
			return w.sendFragment(m, f)
		})
	}
}

// findRivals finds the puts whose packets may still arrive and write to the memory of m.
func (w *world) findRivals(m *message) {
	for _, r := range w.msgs {
		if r != m && r.region == m.region && r.state != stateDone && r.state != stateRefused &&
			r.offset < m.offset+m.size && m.offset < r.offset+r.size {
			m.rivals, r.rivals = append(m.rivals, r), append(r.rivals, m)
		}
	}
}

// inPlace reports whether the target memory of a put has the put's bytes, or bytes of its rivals.
func (m *message) inPlace() bool {
	want := m.content(nil)
	if len(m.memory) != m.size {
		return false
	}
	for k := len(m.rivals) - 1; k >= 0 && !bytes.Equal(m.memory, want); k-- {
		r := m.rivals[k]
		theirs := r.content(nil)
		for i := max(0, r.offset-m.offset); i < min(m.size, r.offset+r.size-m.offset); i++ {
			if b := m.memory[i]; b == theirs[m.offset+i-r.offset] {
				want[i] = b
			}
		}
	}
	return bytes.Equal(m.memory, want)
}

// onSide parses a command about an endpoint.
func (p *parser) onSide(do func(w *world, s *side)) func(*world) error {
	r := p.route()
	return func(w *world) error {
		s, err := w.latest(r)
		if err != nil {
			return err
		}
		do(w, s)
		w.node(r.from).Kick()
		return nil
	}
}

func (p *parser) parseFlush() func(*world) error {
	return p.onSide(func(w *world, s *side) {
		n := w.node(s.from)
		n.note("flush to %s", s.to)
		s.flushes++
		s.ep.Flush(w.net.Now(), func(err error) {
			s.flushes--
			n.note("flushed to %s%s", s.to, because(err))
		})
	})
}

func (p *parser) parseClose() func(*world) error {
	return p.onSide(func(w *world, s *side) {
		w.node(s.from).note("close to %s", s.to)
		s.ep.Close(w.net.Now())
	})
}

func (p *parser) parseAbort() func(*world) error {
	return p.onSide(func(w *world, s *side) {
		w.node(s.from).note("abort to %s", s.to)
		s.ep.Abort()
	})
}

func (p *parser) parseDrain() func(*world) error {
	name := p.node()
	d := p.w.nextDuration()
	return func(w *world) error {
		n := w.node(name)
		if n.Mod == nil {
			return w.errorf("%s is down", name)
		}
		n.note("drain")
		n.Mod.Drain(w.net.Now(), w.net.Now().Add(d))
		n.Kick()
		return nil
	}
}

func (p *parser) parseStop() func(*world) error {
	name := p.node()
	return func(w *world) error {
		n := w.node(name)
		n.note("stop")
		return n.Stop()
	}
}

// nameLife tells the trace how to name a module's incarnation.
func (w *world) nameLife(n *node) {
	name, err := frag.ParseName(n.lives[len(n.lives)-1])
	if err != nil {
		w.fail("%s: %w", n.name, err)
		return
	}
	w.trace.Life(name.Incarnation, fmt.Sprintf("%s%d", n.name, len(n.lives)))
}
