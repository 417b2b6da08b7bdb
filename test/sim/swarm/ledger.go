package swarm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"gobtl/btl"
	"gobtl/internal/mono"
	"gobtl/test/sim/attacker"
)

// message is one accepted send.
type message struct {
	number int
	id     uint64
	from   *end
	size   int
	tag    btl.Tag
	at     mono.Time
	mem    []byte // the caller's memory while the send is under way
	put    *put
	value  uint64 // that an atomic operation has found
	pos    int    // among those of its end

	queued    bool // OnDone comes
	done      bool // Send returned Done
	ended     bool
	lost      bool // its sender crashed
	delivered int
	err       error
}

func (m *message) String() string {
	kind := "message"
	if m.put != nil {
		kind = "put"
	}
	return fmt.Sprintf("%s %d of %s (%d bytes, tag %d)", kind, m.number, m.from, m.size, m.tag)
}

// ledger holds all messages of a run.
type ledger struct {
	msgs   []*message
	open   int // queued and not ended
	failed uint64
	slab   []message
	mems   [][]byte
}

// smallBytes is the size below which a message has no room for its number, and is only counted.
const smallBytes = 8

// block is the memory from which message contents are taken.
var block = makeBlock(1 << 20)

// blockShift limits the offset at which a message begins in the block.
const blockShift = 4093

func makeBlock(size int) []byte {
	b := make([]byte, size+blockShift+8)
	d := newDraw(1, 2)
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], d.Uint64())
	}
	return b
}

// Ids are scattered message numbers, so that the id of a corrupted message belongs to no message.
const (
	idFactor  = 0x9E3779B97F4A7C15
	idInverse = 0xF1DE83E19937733D
)

func (g *ledger) id(number int) uint64 { return (uint64(number) ^ 0x51A5) * idFactor }

func (g *ledger) byID(id uint64) *message {
	n := id*idInverse ^ 0x51A5
	if n >= uint64(len(g.msgs)) {
		return nil
	}
	return g.msgs[n]
}

// body returns the bytes of a message from its ninth byte on.
func body(id uint64, size int) []byte { return block[id%blockShift:][:size] }

// write fills p with the content of a message.
func write(p []byte, id uint64) {
	if len(p) < smallBytes {
		clear(p)
		return
	}
	binary.LittleEndian.PutUint64(p, id)
	copy(p[smallBytes:], body(id, len(p)-smallBytes))
}

// The method enter makes the record of a message before the message is sent.
func (g *ledger) enter(e *end, tag btl.Tag, size int) *message {
	if len(g.slab) == 0 {
		g.slab = make([]message, 512)
	}
	m := &g.slab[0]
	g.slab = g.slab[1:]
	*m = message{number: len(g.msgs), from: e, size: size, tag: tag, at: e.w.net.Now()}
	m.id = g.id(m.number)
	g.msgs = append(g.msgs, m)
	return m
}

// cancel removes the latest entry, because the send was refused.
func (g *ledger) cancel(m *message) {
	g.msgs = g.msgs[:m.number]
	g.giveMem(m)
}

// accept records an accepted send.
func (g *ledger) accept(m *message, st btl.Status) {
	e := m.from
	m.pos = len(e.msgs)
	e.msgs = append(e.msgs, m.number)
	if m.put == nil && m.size < smallBytes {
		e.small[m.size][tagIndex(m.tag)].accepted++
	}
	if st == btl.Done {
		m.done, m.ended = true, true
		g.giveMem(m)
		return
	}
	m.queued = true
	g.open++
	e.open++
}

func tagIndex(t btl.Tag) int {
	switch {
	case t == tagFlicker:
		return handledTags
	case t > handledTags:
		return handledTags + 1
	}
	return int(t) - 1
}

// takeMem returns caller's memory for a message of size bytes.
func (g *ledger) takeMem(size int) []byte {
	if n := len(g.mems); n > 0 {
		b := g.mems[n-1]
		g.mems = g.mems[:n-1]
		if cap(b) >= size {
			return b[:size]
		}
	}
	return make([]byte, size, max(size, 256))
}

// giveMem overwrites caller's memory as soon as the module has returned it.
func (g *ledger) giveMem(m *message) {
	if m.mem == nil {
		return
	}
	for i := 0; i < len(m.mem); i += 61 {
		m.mem[i] ^= 0x5A
	}
	if len(g.mems) < 64 {
		g.mems = append(g.mems, m.mem)
	}
	m.mem = nil
}

// onDone handles the end of a queued send.
func (w *world) onDone(f *btl.Fragment, err error) {
	m := w.ledger.msgs[f.Context]
	if f.Endpoint() != m.from.ep {
		w.fail("%s: OnDone with a fragment of another endpoint", m)
	}
	if w.lying(lieForgetDone) {
		return
	}
	m.value = f.Value()
	for range w.lieTwice(lieDoneTwice) {
		w.ledger.end(w, m, w.lieOutcome(m, err))
	}
	m.from.life.onSent(m)
}

// end records the end of a queued send.
func (g *ledger) end(w *world, m *message, err error) {
	e := m.from
	switch {
	case m.done:
		w.fail("%s: OnDone(%v) after Send returned Done", m, err)
		return
	case !m.queued:
		w.fail("%s: OnDone(%v) before Send returned", m, err)
		return
	case m.ended:
		w.fail("%s: OnDone(%v) after OnDone(%v)", m, err, m.err)
		return
	case m.lost:
		w.fail("%s: OnDone(%v) after its process was killed", m, err)
		return
	}
	m.ended, m.err = true, err
	if m.put != nil && m.put.remote != nil {
		m.put.remote.settle()
	}
	g.open--
	e.open--
	g.giveMem(m)
	if w.opts.Note != nil {
		w.note(e.life.host, "%s ended: %v", m, err)
	}
	if err != nil {
		g.failed++
	}
	if !e.tainted() {
		g.judge(w, m)
	}
}

// tooLong reports whether a message may be refused because its handler takes only shorter ones.
func (m *message) tooLong() bool {
	return m.put == nil && m.tag == tagLimited && m.size > limitBytes
}

// cutOff reports whether an undelivered message may have been in a Pack behind a message whose
// handler ended the endpoint or removed a handler.
func (m *message) cutOff() bool {
	if m.delivered > 0 || m.put != nil || m.from.life.cfg.PackBytes == 1 {
		return false
	}
	o := m.from.otherEnd()
	return o != nil && (o.cutOff || m.tag == tagFlicker && o.life.deafIn)
}

// The method judge checks the result of a send.
func (g *ledger) judge(w *world, m *message) {
	e, err := m.from, m.err
	if m.put != nil && m.put.judge(w, m) {
		return
	}
	if err == nil {
		if m.put == nil && m.size >= smallBytes && m.delivered != 1 && !m.cutOff() {
			w.fail("%s ended well, and was delivered %d times", m, m.delivered)
		}
		if nobodys(m.tag) || m.tooLong() {
			w.fail("%s ended well, and nobody handles it, or wants it", m)
		}
		return
	}
	switch {
	case errors.Is(err, btl.ErrUnwanted):
		if !m.tooLong() || m.delivered > 0 {
			w.fail("%s ended with %v: too long %v, delivered %d times", m, err, m.tooLong(), m.delivered)
		}
		return
	case errors.Is(err, btl.ErrNoHandler):
		if m.put != nil || !nobodys(m.tag) && m.tag != tagFlicker {
			w.fail("%s ended with %v: the peer has a handler", m, err)
		}
		if m.delivered > 0 && m.tag != tagFlicker {
			w.fail("%s ended with %v, and was delivered", m, err)
		}
		return
	case errors.Is(err, btl.ErrTooLarge):
		if p := e.peer; p != nil && m.size <= int(p.mod.Config().FragmentBytesMax) {
			w.fail("%s ended with %v: the peer takes it", m, err)
		}
		return
	}
	if why := e.unjustified(err); why != "" {
		w.fail("%s ended with %v: %s", m, err, why)
	}
	if cause := e.ep.Err(); cause == nil || !errors.Is(err, cause) && err.Error() != cause.Error() {
		w.fail("%s ended with %v, its endpoint with %v", m, err, cause)
	}
}

// receive is the handler of a module.
func (l *life) receive(ep *btl.Endpoint, tag btl.Tag, data []byte) {
	w := l.w
	e := l.endOf(ep)
	if l.closed {
		w.fail("%s: a delivery to a module that is closed", e)
	}
	if e.over {
		w.fail("%s: a delivery after the end (%d, %v)", e, e.event, e.err)
	}
	if tag == tagFlicker && l.deaf() || nobodys(tag) {
		w.fail("%s: a delivery to tag %d, which has no handler", e, tag)
	}
	e.got++
	w.res.Delivered++
	l.keep(e, data)
	data = w.lieBytes(e, data)
	for range w.lieTwice(lieDeliverTwice) {
		w.ledger.deliver(w, e, tag, data)
	}
	e.handling = true
	l.respond(e, len(data))
	e.handling = false
	e.cutOff = e.cutOff || l.closed || l.closeAsked
}

// deliver records a delivery at the endpoint e.
func (g *ledger) deliver(w *world, e *end, tag btl.Tag, data []byte) {
	if e.learn(); !e.known {
		w.fail("%s: a delivery before it is connected", e)
		return
	}
	if e.tainted() {
		if m := g.claimed(data); m != nil && m.from.tag == e.peerTag {
			m.delivered++
		}
		if e.peer == nil && !w.altered(e.life.host.index) && !attacker.Forged(data) {
			w.fail("%s: an attacker's message holds bytes that it never sent: %x", e,
				data[:min(16, len(data))])
		}
		return
	}
	if len(data) < smallBytes {
		g.deliverSmall(w, e, tag, data)
		return
	}
	m := g.claimed(data)
	if m == nil {
		if attacker.Forged(data) {
			w.fail("%s: a message of an attacker was delivered", e)
			return
		}
		w.fail("%s: a message of %d bytes that nobody sent was delivered: %x...", e, len(data), data[:8])
		return
	}
	if m.delivered++; m.delivered > 1 {
		w.fail("%s was delivered %d times", m, m.delivered)
	}
	from := m.from
	from.learn()
	from.checkFences(m)
	switch {
	case m.put != nil:
		w.fail("%s was delivered as a message", m)
	case from.peer != e.life:
		w.fail("%s was delivered to %s, not to the life of the peer that was meant", m, e)
	case from.peerTag != e.tag || e.peerTag != from.tag:
		w.fail("%s was delivered to %s, which is another connection", m, e)
	case m.tag != tag:
		w.fail("%s was delivered to tag %d", m, tag)
	case len(data) != m.size:
		w.fail("%s was delivered with %d bytes", m, len(data))
	case !bytes.Equal(data[smallBytes:], body(m.id, m.size-smallBytes)):
		w.fail("%s was delivered altered", m)
	case m.err != nil && !errors.Is(m.err, btl.ErrNoHandler):
		// A message may arrive after its sender has given up the send.
	}
}

func (g *ledger) claimed(data []byte) *message {
	if len(data) < smallBytes {
		return nil
	}
	return g.byID(idOf(data))
}

func (g *ledger) deliverSmall(w *world, e *end, tag btl.Tag, data []byte) {
	for _, b := range data {
		if b != 0 {
			w.fail("%s: a message of %d bytes was delivered altered: %x", e, len(data), data)
		}
	}
	o := e.otherEnd()
	if o == nil || o.peerTag != e.tag && o.known {
		w.fail("%s: a small message of nobody", e)
		return
	}
	c := &o.small[len(data)][tagIndex(tag)]
	if c.delivered++; c.delivered > c.accepted {
		w.fail("%s: %d messages of %d bytes to tag %d were delivered, %d were sent", e, c.delivered,
			len(data), tag, c.accepted)
	}
}

// abandon forgets the sends of a killed process.
func (g *ledger) abandon(l *life) {
	for _, e := range l.ends {
		for _, n := range e.msgs {
			if m := g.msgs[n]; m.queued && !m.ended {
				m.ended, m.lost = true, true
				g.open--
				e.open--
				m.mem = nil // the network may still hold it
			}
		}
	}
}

// missing returns a message that should have been delivered before the peer's goodbye, or nil.
func (g *ledger) missing(e *end) *message {
	for _, n := range e.msgs {
		m := g.msgs[n]
		if m.put == nil && m.size >= smallBytes && m.delivered == 0 && m.tag <= handledTags &&
			m.err == nil && !m.tooLong() {
			return m
		}
		if m.put != nil && m.put.missing(m) {
			return m
		}
	}
	return nil
}

// judgeDrained checks, when nothing is in flight any more, that each connection without an error
// has delivered all accepted messages.
func (g *ledger) judgeDrained(w *world) {
	for _, h := range w.hosts {
		if h.life == nil {
			continue
		}
		for _, e := range h.life.ends {
			if e.over || e.closing || !e.connected || e.tainted() {
				continue
			}
			if m := g.missing(e); m != nil {
				w.fail("%s was accepted, its connection is well, and it was not delivered", m)
			}
			for size := range e.small {
				for tag, c := range e.small[size] {
					if tag < handledTags && c.accepted != c.delivered {
						w.fail("%s: %d messages of %d bytes accepted, %d delivered, and the connection is well",
							e, c.accepted, size, c.delivered)
					}
				}
			}
		}
	}
}

// judgeEnd checks that all sends have ended.
func (g *ledger) judgeEnd(w *world) {
	for _, m := range g.msgs {
		if m.queued && !m.ended {
			w.fail("%s never ended", m)
		}
		if m.put != nil && m.put.remote != nil {
			m.put.remote.judgeEnd(w, m)
		}
	}
}

func (g *ledger) firstOpen() string {
	for _, m := range g.msgs {
		if m.queued && !m.ended {
			return m.String()
		}
	}
	return "none"
}

func (g *ledger) openOf(l *life) *message {
	for _, e := range l.ends {
		if m := g.oldestOpen(e); m != nil {
			return m
		}
	}
	return nil
}

// oldestOpen returns the oldest incomplete send of an endpoint.
func (g *ledger) oldestOpen(e *end) *message {
	if e.open == 0 {
		return nil
	}
	for _, n := range e.msgs {
		if m := g.msgs[n]; m.queued && !m.ended {
			return m
		}
	}
	return nil
}
