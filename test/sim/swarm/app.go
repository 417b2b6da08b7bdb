package swarm

import (
	"errors"
	"time"

	"gobtl/btl"
)

// way is one kind of action of an application with a connection.
type way uint8

const (
	wayImmediate  way = iota // SendImmediate
	wayAlloc                 // Alloc and Send
	wayPrepare               // Prepare and Send
	wayRegistered            // the same from registered memory
	wayFree                  // Alloc, and Free instead of Send
	wayNotice                // a put with a notice
	wayGet                   // a get, mostly right
	wayAtomic                // an atomic operation, mostly right
	wayPut                   // a put that is right
	wayBadPut                // a put that is not
	wayNobody                // a tag without handler
	wayFlicker               // a tag whose handler comes and goes
	wayFlush
	wayFence
	wayClose
	wayAbort
	numWays
)

// weights holds the relative frequency of each way.
type weights struct {
	of  [numWays]float64
	sum float64
}

// usual holds the mean weights, from which each plan draws its own weights.
var usual = [numWays]float64{
	wayImmediate: 3, wayAlloc: 4, wayPrepare: 4, wayRegistered: 1, wayFree: 0.2, wayPut: 1.5,
	wayNotice: 1, wayGet: 1, wayAtomic: 1, wayFence: 0.2,
	wayBadPut: 0.1, wayNobody: 0.1, wayFlicker: 0.2, wayFlush: 0.3, wayClose: 0.01, wayAbort: 0.005,
}

func drawWeights(d draw) weights {
	var ws weights
	for k := range numWays {
		if k <= wayPrepare || d.chance(0.5) {
			ws.of[k] = usual[k] * d.scale(0.1, 10)
		}
		ws.sum += ws.of[k]
	}
	return ws
}

func (ws *weights) pick(d draw) way {
	x := d.Float64() * ws.sum
	for k := range numWays {
		if x -= ws.of[k]; x < 0 {
			return k
		}
	}
	return wayAlloc
}

// flow is a running application.
type flow struct {
	w      *world
	plan   *FlowPlan
	number int
	end    *end
	tickFn func()
}

// tick is one activity of the flow.
func (f *flow) tick() {
	w := f.w
	if w.phase != phaseFaults || w.spent() {
		return
	}
	w.net.After(1+w.d.dur(f.plan.Gap/4+1, 4*f.plan.Gap+2), f.tickFn)
	h := w.hosts[f.plan.Node]
	if h.life == nil || h.life.closing {
		return
	}
	e := f.pick(h.life)
	if e == nil {
		return
	}
	small := f.plan.Small > 0 && w.d.chance(f.plan.Small)
	for range w.d.between(1, f.plan.Burst) {
		size := 0
		if small {
			size = w.d.IntN(f.plan.SmallMax + 1)
		} else {
			size = w.drawSize(f.plan.SizeMax)
		}
		if !e.do(f.plan.ways.pick(w.d), size) {
			break
		}
	}
	h.node.Kick()
}

// spent reports whether the run has sent all the packets that it may send.
func (w *world) spent() bool { return w.packets > w.plan.Budget }

// pick chooses the connection to use.
func (f *flow) pick(l *life) *end {
	w := f.w
	if w.d.chance(f.plan.Wander) && len(l.ends) > 0 {
		if e := l.ends[w.d.IntN(len(l.ends))]; !e.over && e.shown() {
			return e
		}
	}
	if e := f.end; e != nil && e.life == l && !e.over && !e.closing {
		return e
	}
	f.end = l.connect(f.plan.Peer)
	return f.end
}

// connect connects to a node by the name of its present incarnation, and sometimes by an earlier
// one.
func (l *life) connect(peer int) *end {
	w := l.w
	to := w.hosts[peer]
	if len(to.lives) == 0 {
		return nil
	}
	target := to.lives[len(to.lives)-1]
	if w.d.chance(0.05) {
		target = to.lives[w.d.IntN(len(to.lives))]
	}
	l.random.second = false
	ep, err := l.mod.Connect(l.w.net.Now(), target.names)
	if err != nil {
		switch {
		case errors.Is(err, btl.ErrRefused) && endpointsOf(l.mod) >= l.mod.Config().PeersMax:
		case errors.Is(err, btl.ErrClosed) && l.closing:
		default:
			w.fail("node %s: Connect to %s: %w", l.host.node.Name(), to.node.Name(), err)
		}
		return nil
	}
	e := l.endOf(ep)
	if !e.ours {
		w.note(l.host, "%s Connect to %s%d", e, to.node.Name(), target.number)
	}
	if e.ours = true; e.meant == nil {
		e.meant = target
	}
	if e.over {
		w.fail("%s: Connect returned an endpoint that has ended", e)
		return nil
	}
	return e
}

// drawSize draws a message size, which is mostly small or at a limit between two packet kinds.
func (w *world) drawSize(sizeMax int) int {
	d, mtu := w.d, w.plan.Net.MTUBytes
	switch d.IntN(12) {
	case 0, 1, 2, 3:
		return min(d.IntN(64), sizeMax)
	case 4:
		border := [...]int{0, 8, 224, 256, 480, 512, 728, 736, 768, mtu - 48, mtu - 32, mtu, 2*mtu - 96}
		return min(max(0, border[d.IntN(len(border))]+d.IntN(3)-1), sizeMax)
	case 5, 6, 7:
		return d.IntN(min(2000, sizeMax) + 1)
	case 8, 9, 10:
		return d.IntN(min(12_000, sizeMax) + 1)
	}
	return d.size(1, max(2, sizeMax))
}

// do performs one action, and returns false if resources are missing now.
func (e *end) do(how way, size int) bool {
	w := e.w
	if e.over || e.life.closed {
		return false
	}
	tag := btl.Tag(1 + w.d.IntN(handledTags))
	switch how {
	case wayNobody:
		tag = tagNobody + btl.Tag(w.d.IntN(nobodies))
	case wayFlicker:
		tag = tagFlicker
	default:
	}
	switch how {
	case wayImmediate:
		return e.sendImmediate(tag, size)
	case wayAlloc, wayFree, wayNobody, wayFlicker:
		return e.sendAlloc(tag, size, how == wayFree)
	case wayRegistered:
		return e.sendRegistered(tag, size)
	case wayPut:
		return e.sendPut(size)
	case wayBadPut:
		return e.sendBadPut(size)
	case wayNotice:
		return e.sendNotice(size)
	case wayGet:
		return e.sendGet(size)
	case wayAtomic:
		return e.sendAtomics()
	case wayFence:
		e.fence()
	case wayFlush:
		e.flush()
	case wayClose:
		e.close()
	case wayAbort:
		e.abort()
	default:
		return e.sendPrepared(tag, size)
	}
	return true
}

func (e *end) sendImmediate(tag btl.Tag, size int) bool {
	w := e.w
	size = min(size, e.ep.MaxTiny())
	m := w.ledger.enter(e, tag, size)
	m.mem = w.ledger.takeMem(size)
	write(m.mem, m.id)
	if err := e.ep.SendImmediate(e.w.net.Now(), tag, m.mem); err != nil {
		return e.refused(m, err)
	}
	e.accepted(m, btl.Done)
	return true
}

func (e *end) sendAlloc(tag btl.Tag, size int, free bool) bool {
	w := e.w
	m := w.ledger.enter(e, tag, size)
	f, err := e.ep.Alloc(tag, size)
	if err != nil {
		return e.refused(m, err)
	}
	write(f.Bytes(), m.id)
	if free {
		w.ledger.cancel(m)
		if err := e.ep.Free(f); err != nil {
			w.fail("%s: Free: %w", e, err)
		}
		return true
	}
	return e.send(f, m)
}

func (e *end) sendPrepared(tag btl.Tag, size int) bool {
	w := e.w
	m := w.ledger.enter(e, tag, size)
	m.mem = w.ledger.takeMem(size)
	write(m.mem, m.id)
	f, err := e.prepare(tag, m, m.mem)
	if err != nil {
		return e.refused(m, err)
	}
	return e.send(f, m)
}

// send sends a fragment of message m.
func (e *end) send(f *btl.Fragment, m *message) bool {
	w := e.w
	f.OnDone, f.Context = w.onDoneFn, uint64(m.number)
	f.Signal = w.d.chance(0.5)
	signal := f.Signal
	const some = 7
	f.Urgent = m.number%some == 0
	st, err := e.ep.Send(e.w.net.Now(), f)
	if err != nil {
		if e := e.ep.Free(f); e != nil {
			w.fail("freeing a refused fragment: %w", e)
		}
		return e.refused(m, err)
	}
	if st == btl.Done && signal {
		w.fail("%s: Done, although a signal was asked for", m)
	}
	e.accepted(m, st)
	return true
}

func (e *end) accepted(m *message, st btl.Status) {
	e.w.ledger.accept(m, st)
	if m.put != nil && m.put.region != nil && m.put.must {
		m.put.region.puts = append(m.put.region.puts, m)
	}
	if e.w.opts.Note != nil {
		e.w.note(e.life.host, "%s sent, done %v", m, st == btl.Done)
	}
}

// The method refused checks the reason why a send was not accepted.
func (e *end) refused(m *message, err error) bool {
	w := e.w
	w.ledger.cancel(m)
	switch {
	case errors.Is(err, btl.ErrAgain):
	case errors.Is(err, btl.ErrTooLarge):
		peer := w.byInc[peerIncarnationOf(e.ep)]
		if m.size <= int(e.life.cfg.FragmentBytesMax) &&
			peer != nil && m.size <= int(peer.cfg.FragmentBytesMax) && !e.tainted() {
			w.fail("%s refused: %v", m, err)
		}
	case errors.Is(err, btl.ErrClosed) && (e.closing || e.aborted || e.life.closing):
	case e.ep.Err() != nil && errors.Is(err, e.ep.Err()):
	case errors.Is(err, btl.ErrUnsupported) && e.tainted(): // its Hello was altered
	default:
		w.fail("%s refused: %v (endpoint: %v)", m, err, e.ep.Err())
	}
	return false
}

// registered is memory of the application that is registered with the fabric.
type registered struct {
	mem []byte
	reg *btl.Registration
}

// sendRegistered sends from registered memory, which the network gathers if the message is larger
// than a packet.
func (e *end) sendRegistered(tag btl.Tag, size int) bool {
	w, l := e.w, e.life
	if len(l.regs) == 0 {
		for range 3 {
			mem := make([]byte, 64<<10)
			reg, err := l.mod.RegisterMemory(mem)
			if err != nil {
				return e.sendPrepared(tag, size)
			}
			l.regs = append(l.regs, &registered{mem, reg})
		}
	}
	r := l.regs[len(l.regs)-1]
	size = min(size, len(r.mem))
	m := w.ledger.enter(e, tag, size)
	mem := r.mem[w.d.IntN(len(r.mem)-size+1):][:size]
	write(mem, m.id)
	f, err := e.prepare(tag, m, mem)
	if err != nil {
		return e.refused(m, err)
	}
	l.regs = l.regs[:len(l.regs)-1] // until the send has ended
	if !e.send(f, m) {
		l.regs = append(l.regs, r)
		return false
	}
	if m.done {
		clear(mem)
		l.regs = append(l.regs, r)
		return true
	}
	w.lent[m.number] = lentMemory{r, mem}
	return true
}

// lentMemory is registered memory that an incomplete send uses.
type lentMemory struct {
	r   *registered
	mem []byte
}

// onSent is the reaction of an application to the end of a send.
func (l *life) onSent(m *message) {
	w := l.w
	if lent, ok := w.lent[m.number]; ok {
		clear(lent.mem)
		l.regs = append(l.regs, lent.r)
		delete(w.lent, m.number)
	}
	if w.idle(l) {
		return
	}
	if w.d.chance(w.plan.SendIn) {
		m.from.do(way(w.d.IntN(int(wayPut)+1)), w.drawSize(4000))
	}
}

// The method idle reports whether the callbacks of a module do nothing any more.
func (w *world) idle(l *life) bool {
	return w.phase != phaseFaults || l.closing || l.closed || w.spent()
}

// respond is the reaction of an application in a message handler.
func (l *life) respond(e *end, size int) {
	w := l.w
	if w.idle(l) {
		return
	}
	p := w.plan
	switch {
	case w.d.chance(p.Reply):
		e.do(way(w.d.IntN(int(wayPut)+1)), size)
	case w.d.chance(p.CloseIn):
		e.close()
	case w.d.chance(p.AbortIn):
		e.abort()
	case w.d.chance(p.ConnectIn):
		if o := l.connect(w.d.IntN(len(w.hosts))); o != nil {
			o.do(wayAlloc, w.drawSize(2000))
		}
	case p.DeafIn > 0 && w.d.chance(p.DeafIn):
		l.deafIn = true
		l.deafen(w.d.dur(time.Microsecond, 5*time.Millisecond))
	case w.d.chance(p.CloseIn / 20):
		l.w.note(l.host, "closes its module in a handler")
		l.closing, l.closeAsked = true, true
		if err := l.mod.Close(); err != nil {
			w.fail("Close in a handler: %w", err)
		}
		w.reopenLater(l.host)
	}
}

// react is the reaction of an application to an event of an endpoint.
func (l *life) react(e *end, ev btl.Event) {
	w := l.w
	if w.idle(l) {
		return
	}
	switch {
	case ev == btl.EventConnected && w.d.chance(w.plan.Reply):
		e.do(wayPrepare, w.drawSize(2000))
	case ev != btl.EventConnected && e.peerHost() >= 0 && w.d.chance(w.plan.Reconnect):
		if o := l.connect(e.peerHost()); o != nil && w.d.chance(0.5) {
			o.do(wayAlloc, w.drawSize(2000))
		}
	}
}

// flush asks for a report when all earlier sends have been acknowledged.
func (e *end) flush() {
	before := len(e.msgs)
	e.flushes++
	e.w.flushes++
	called := false
	e.ep.Flush(e.w.net.Now(), func(err error) {
		if called {
			e.w.fail("%s: a flush was called twice", e)
			return
		}
		called = true
		e.onFlush(before, err)
	})
	e.w.lieFlush(e, before)
}
