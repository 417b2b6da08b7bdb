package stranger

// region is memory that peers may use, as in section 18.
type region struct {
	handle uint64
	mem    []byte
	rights byte
	only   *conn
	get    *waiter // it is the place of an answer
}

const (
	mayWrite = 1 << iota
	mayRead
	mayAtomic
	mayNotify
)

func (h *host) expose(mem []byte, rights byte) *region {
	r := &region{handle: h.dice.Uint64(), mem: mem, rights: rights}
	h.regions[r.handle] = r
	return r
}

// waiter is an operation that waits for its answer.
type waiter struct {
	op   uint32
	left int
	r    *region
	old  uint64
	ch   chan error
	done bool
}

func (w *waiter) finish(err error) {
	if !w.done {
		w.done = true
		w.ch <- err
	}
}

// count counts the bytes of a put with a notification.
type count struct {
	have, want int
	notice     func()
}

// remote is the state of a connection for remote operations.
type remote struct {
	nextOp   uint32 // of what has an answer, or a notice in one packet
	portions uint32 // number of the last put with Portions: one after the other
	waiting  map[uint32]*waiter
	counts   map[uint32]*count
}

// reach returns a part of a region, or the reason for a refusal.
func (c *conn) reach(handle, offset uint64, n int, rights byte, align uint64) (*region, byte) {
	r := c.h.regions[handle]
	ops := c.features&featOps != 0
	name := func(reason byte) byte {
		if ops {
			return reason
		}
		return 1
	}
	switch {
	case r == nil || r.only != nil && r.only != c:
		return nil, 1
	case r.rights&rights != rights:
		return nil, name(6)
	case offset > uint64(len(r.mem)) || uint64(n) > uint64(len(r.mem))-offset || offset%align != 0:
		return nil, name(5)
	}
	return r, 0
}

// acceptRemote accepts a packet with the extra of a put or another operation.
func (c *conn) acceptRemote(p *packet) byte {
	if p.op != nil && c.features&featOps == 0 {
		c.h.wrong("an operation without the feature: %+v", p)
		return refuseNow
	}
	b := p.payload
	if p.op == nil {
		r, reason := c.reach(p.put.handle, p.put.offset, len(b), mayWrite, 1)
		if reason == 0 {
			c.place(r, p.put.offset, b)
		}
		return reason
	}
	switch p.op.code {
	case 1:
		r, reason := c.reach(p.put.handle, p.put.offset, len(b), mayWrite|mayNotify, 1)
		if reason == 0 {
			c.place(r, p.put.offset, b)
			n := c.counted(p.op.operation)
			n.have += len(b)
			c.notify(p.op.operation)
		}
		return reason
	case 2:
		if c.h.handlers[p.tag] == nil {
			return 2
		}
		n := c.counted(p.op.operation)
		n.want, n.notice = int(le.Uint32(b)), func() { c.deliver(p.tag, b[4:]) }
		c.notify(p.op.operation)
	case 3:
		n := len(b) - int(p.op.notice)
		r, reason := c.reach(p.put.handle, p.put.offset, n, mayWrite|mayNotify, 1)
		if reason != 0 {
			return reason
		}
		if c.h.handlers[p.tag] == nil {
			return 2
		}
		c.place(r, p.put.offset, b[:n])
		c.deliver(p.tag, b[n:])
	case 4:
		return c.acceptGet(p)
	case 5:
		return c.acceptAtomic(p)
	case 6, 7:
		c.onAnswer(p)
	}
	return 0
}

func (c *conn) counted(op uint32) *count {
	n := c.counts[op]
	if n == nil {
		n = &count{}
		c.counts[op] = n
	}
	return n
}

func (c *conn) notify(op uint32) {
	if n := c.counts[op]; n.notice != nil && n.have >= n.want {
		if n.have > n.want {
			c.h.wrong("operation %d: %d bytes of %d", op, n.have, n.want)
		}
		delete(c.counts, op)
		n.notice()
	}
}

// place writes the bytes of a put.
func (c *conn) place(r *region, offset uint64, b []byte) {
	copy(r.mem[offset:], b)
	if w := r.get; w != nil {
		if w.left -= len(b); w.left <= 0 {
			delete(c.h.regions, r.handle)
			delete(c.waiting, w.op)
			w.finish(nil)
		}
	}
}

func (c *conn) onAnswer(p *packet) { c.onAnswerOf(p.op.operation, p.op.code, p.payload) }

func (c *conn) onAnswerOf(number uint32, code byte, b []byte) {
	w := c.waiting[number]
	if w == nil {
		return
	}
	delete(c.waiting, w.op)
	if w.r != nil {
		delete(c.h.regions, w.r.handle)
	}
	if code == 7 {
		w.finish(refused{b[0]})
		return
	}
	w.old = le.Uint64(b)
	w.finish(nil)
}

func (c *conn) acceptGet(p *packet) byte {
	b := p.payload
	handle, offset, answer, n := le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint32(b[24:])
	r, reason := c.reach(handle, offset, int(n), mayRead, 1)
	if reason != 0 {
		return reason
	}
	data := append([]byte(nil), r.mem[offset:offset+uint64(n)]...)
	c.give(&message{data: data, put: &put{answer, 0}})
	return 0
}

// giveFailed reports that no answer will come.
func (c *conn) giveFailed(number uint32, reason byte) {
	c.give(&message{data: []byte{reason}, op: &op{number, 7, 0}, bare: true})
}

func (c *conn) acceptAtomic(p *packet) byte {
	r, reason := c.mayChange(p.payload)
	if reason == 0 {
		c.change(r, p.op.operation, p.payload)
	}
	return reason
}

// mayChange returns the region of an Atomic, or the reason for a refusal.
func (c *conn) mayChange(b []byte) (*region, byte) {
	handle, offset := le.Uint64(b), le.Uint64(b[8:])
	operand, compare := le.Uint64(b[16:]), le.Uint64(b[24:])
	action, width, fetch := b[32], b[33], b[34]
	ok := action >= 1 && action <= 9 && (width == 4 || width == 8) && fetch <= 1 &&
		(action == 3 || compare == 0) && (action != 9 || operand == 0 && fetch == 1) &&
		(width == 8 || operand>>32 == 0 && compare>>32 == 0)
	if !ok {
		return nil, 1
	}
	return c.reach(handle, offset, int(width), mayAtomic, uint64(width))
}

// change performs an Atomic.
func (c *conn) change(r *region, number uint32, b []byte) {
	offset, operand, compare := le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:])
	action, width, fetch := b[32], b[33], b[34]
	var old uint64
	if width == 4 {
		old = uint64(le.Uint32(r.mem[offset:]))
	} else {
		old = le.Uint64(r.mem[offset:])
	}
	now := change(action, old, operand, compare)
	if width == 4 {
		le.PutUint32(r.mem[offset:], uint32(now))
	} else {
		le.PutUint64(r.mem[offset:], now)
	}
	if fetch == 1 {
		c.give(&message{data: le.AppendUint64(nil, old), op: &op{number, 6, 0}, bare: true})
	}
}

func change(action byte, old, operand, compare uint64) uint64 {
	switch action {
	case 1:
		return old + operand
	case 2:
		return operand
	case 3:
		if old == compare {
			return operand
		}
	case 4:
		return old & operand
	case 5:
		return old | operand
	case 6:
		return old ^ operand
	case 7:
		return min(old, operand)
	case 8:
		return max(old, operand)
	}
	return old
}

// putTo writes to a region of the peer.
func (c *conn) putTo(handle, offset uint64, b []byte) *message {
	return c.give(&message{data: b, put: &put{handle, offset}})
}

// putNotice sends a put with a notification, either as one Placed, or as several Portions followed
// by a Notice.
func (c *conn) putNotice(handle, offset uint64, b []byte, tag byte, says string) *message {
	at := &put{handle, offset}
	if 32+24+len(b)+len(says) <= c.room() {
		c.nextOp++
		o := &op{c.nextOp, 3, byte(len(says))}
		both := append(append([]byte(nil), b...), says...)
		return c.give(&message{tag: tag, data: both, put: at, op: o})
	}
	c.portions++
	c.give(&message{data: b, put: at, op: &op{c.portions, 1, 0}})
	data := append(le.AppendUint32(nil, uint32(len(b))), says...)
	return c.give(&message{tag: tag, data: data, op: &op{c.portions, 2, 0}, bare: true})
}

func (c *conn) ask4(code byte, w *waiter, body []byte) *waiter {
	c.nextOp++
	w.op, w.ch = c.nextOp, make(chan error, 1)
	if c.waiting == nil {
		c.waiting = map[uint32]*waiter{}
	}
	c.waiting[w.op] = w
	m := c.give(&message{data: body, op: &op{w.op, code, 0}, bare: true})
	m.then = func(err error) {
		if err != nil || code == 5 && w.left == 0 {
			delete(c.waiting, w.op)
			w.finish(err)
		}
	}
	return w
}

// get requests bytes of a region of the peer, which are written to w.r.mem.
func (c *conn) get(handle, offset uint64, n int) *waiter {
	r := c.h.expose(make([]byte, n), mayWrite)
	r.only = c
	w := &waiter{left: n, r: r}
	r.get = w
	b := le.AppendUint64(le.AppendUint64(le.AppendUint64(nil, handle), offset), r.handle)
	return c.ask4(4, w, append(le.AppendUint32(b, uint32(n)), 0, 0, 0, 0))
}

// atomic requests the change of a number.
func (c *conn) atomic(handle, offset, operand, compare uint64, action, width, fetch byte) *waiter {
	var b []byte
	for _, v := range []uint64{handle, offset, operand, compare} {
		b = le.AppendUint64(b, v)
	}
	return c.ask4(5, &waiter{left: int(fetch)}, append(b, action, width, fetch, 0, 0, 0, 0, 0))
}
