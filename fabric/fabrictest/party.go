package fabrictest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"gobtl/fabric"
)

const defaultBuffers = 256

// batchMax is the largest number of datagrams that the suite posts or polls with one call.
const batchMax = 32

// An "owner" records the port to which a packet buffer is posted.
type owner struct {
	port *port
	op   fabric.Op
}

// The type "party" is a Domain under test, with a record of the port to which each packet buffer is
// posted.
type party struct {
	tb    testing.TB
	f     *Fixture
	dom   fabric.Domain
	arena fabric.Arena
	owner []owner // by Buf
	free  []fabric.Buf
	// The field "guest" is true if the goroutine that uses the Domain is not the goroutine of the
	// test. Only the goroutine of the test may call FailNow of package testing.
	guest bool
	// The field "stuck" is true if a call of Wait has not returned. While a call of Wait is in
	// progress, the Domain is in use and cannot be closed.
	stuck bool
}

// The type "port" is an Endpoint under test, with a record of its sends and receives.
type port struct {
	*party
	ep      fabric.Endpoint
	caps    fabric.Caps
	arrived []datagram // complete datagrams, oldest first
	spoiled []fabric.Completion
	sending int // sends without their completion
	posted  int // receive buffers
	out     [batchMax]fabric.Completion
	landing landing
	filled  bool // the last Poll used all its room
	// If the field "sourcer" is not nil, the port checks the source of each datagram with
	// AppendSource.
	sourcer fabric.Sourcer
	sources [][]byte
	// If the field "tolerant" is true, a failed send, a failed receive or a truncated datagram does
	// not fail the test. A tolerant port stores the Completions of failed operations and of truncated
	// datagrams in the field "spoiled".
	tolerant bool
}

type datagram struct {
	from fabric.Addr
	data []byte
}

func newParty(tb testing.TB, f *Fixture, cfg fabric.DomainConfig) *party {
	tb.Helper()
	if cfg.Buffers == 0 {
		cfg.Buffers = defaultBuffers
	}
	dom := f.Open(tb, cfg)
	if dom == nil {
		tb.Fatalf("%s: Open returned no domain", f.Name)
	}
	p := &party{tb: tb, f: f, dom: dom, arena: dom.Arena()}
	tb.Cleanup(func() {
		if !p.stuck {
			dom.Close()
		}
	})
	p.owner = make([]owner, p.arena.Len())
	for b := p.arena.Len() - 1; b >= 0; b-- {
		p.free = append(p.free, fabric.Buf(b))
	}
	return p
}

// newPort opens a Domain with one Endpoint.
func newPort(tb testing.TB, f *Fixture) *port {
	tb.Helper()
	return newParty(tb, f, fabric.DomainConfig{}).open(f.Endpoint)
}

// open opens an Endpoint.
func (p *party) open(cfg fabric.EndpointConfig) *port {
	p.tb.Helper()
	ep, err := p.dom.OpenEndpoint(cfg)
	if err != nil {
		p.fatalf("OpenEndpoint(%+v): %v", cfg, err)
	}
	return &port{party: p, ep: ep, caps: ep.Caps()}
}

func (p *party) fatalf(format string, args ...any) {
	p.tb.Helper()
	if !p.guest {
		p.tb.Fatalf(p.f.Name+": "+format, args...)
	}
	p.tb.Errorf(p.f.Name+": "+format, args...)
	runtime.Goexit()
}

func (p *party) insert(peer *port) fabric.Addr {
	p.tb.Helper()
	a, err := p.dom.Insert(peer.ep.Name())
	if err != nil {
		p.fatalf("Insert(%x): %v", peer.ep.Name(), err)
	}
	if a == fabric.AddrUnknown {
		p.fatalf("Insert(%x) returned AddrUnknown", peer.ep.Name())
	}
	return a
}

func (p *party) take() fabric.Buf {
	p.tb.Helper()
	if len(p.free) == 0 {
		p.fatalf("the suite is out of buffers (%d in all)", p.arena.Len())
	}
	b := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	return b
}

func (p *party) give(b fabric.Buf) { p.free = append(p.free, b) }

// The method "await" calls the function "step" repeatedly, until "step" returns true. If "step"
// does not return true within Fixture.Patience, the test fails with the description "what".
func (p *party) await(what string, step func() bool) {
	p.tb.Helper()
	deadline := time.Now().Add(p.f.Patience)
	for !step() {
		if time.Now().After(deadline) {
			p.fatalf("still waiting after %v: %s", p.f.Patience, what)
		}
		runtime.Gosched()
	}
}

// The method "stock" posts n receive buffers to the port.
func (q *port) stock(n int) {
	q.tb.Helper()
	bufs := make([]fabric.Buf, n)
	for i := range bufs {
		bufs[i] = q.take()
	}
	if got, err := q.recv(bufs); err != nil {
		q.fatalf("Recv took %d of %d buffers, RxDepth %d: %v", got, n, q.caps.RxDepth, err)
	}
}

func (q *port) recv(bufs []fabric.Buf) (int, error) {
	q.tb.Helper()
	for _, b := range bufs { // recorded before the call, because a datagram may arrive during the call
		q.owner[b] = owner{q, fabric.OpRecv}
	}
	n, err := q.ep.Recv(bufs)
	if n < 0 || n > len(bufs) || (n == len(bufs)) != (err == nil) {
		q.fatalf("Recv of %d buffers returned %d, %v", len(bufs), n, err)
	}
	for _, b := range bufs[n:] {
		q.owner[b] = owner{}
		q.give(b)
	}
	q.posted += n
	return n, err
}

func (q *port) injected(s *fabric.Send) bool {
	size := int(s.Len)
	if s.Region != 0 {
		size += int(s.RegionLen)
	}
	return size <= q.caps.InjectBytes
}

func (q *port) post(sends []fabric.Send) (int, error) {
	q.tb.Helper()
	n, err := q.ep.Post(sends)
	if n < 0 || n > len(sends) || (n == len(sends)) != (err == nil) {
		q.fatalf("Post of %d sends returned %d, %v", len(sends), n, err)
	}
	for i := range sends[:n] {
		if q.injected(&sends[i]) {
			q.give(sends[i].Buf)
			continue
		}
		q.owner[sends[i].Buf] = owner{q, fabric.OpSend}
		q.sending++
	}
	return n, err
}

func (q *port) load(to fabric.Addr, data []byte) fabric.Send {
	q.tb.Helper()
	b := q.take()
	if n := copy(q.arena.Bytes(b), data); n < len(data) {
		q.fatalf("%d bytes do not fit a buffer of %d", len(data), n)
	}
	return fabric.Send{To: to, Buf: b, Len: uint32(len(data))}
}

func (q *port) postAll(sends []fabric.Send) {
	q.tb.Helper()
	q.await("a send to be taken", func() bool {
		n, err := q.post(sends)
		if err != nil && !errors.Is(err, fabric.ErrAgain) {
			q.fatalf("Post: send %d of %d: %v", n, len(sends), err)
		}
		sends = sends[n:]
		if len(sends) > 0 || len(q.free) < batchMax {
			q.poll(batchMax)
		}
		return len(sends) == 0
	})
}

// send posts one datagram.
func (q *port) send(to fabric.Addr, data []byte) {
	q.tb.Helper()
	q.postAll([]fabric.Send{q.load(to, data)})
}

func (q *port) poll(room int) int {
	q.tb.Helper()
	for i := range q.out {
		q.out[i] = fabric.Completion{Buf: ^fabric.Buf(0), Op: 77, Errno: -77, Landed: 1 << 31}
	}
	n, err := q.ep.Poll(q.out[:room])
	if err != nil {
		q.fatalf("Poll: %v", err)
	}
	if n < 0 || n > room {
		q.fatalf("Poll for %d completions returned %d", room, n)
	}
	q.filled = n == room
	for i := range q.out[:n] {
		q.complete(q.out[i])
	}
	return n
}

func (q *port) complete(c fabric.Completion) {
	q.tb.Helper()
	if c.Op != fabric.OpSend && c.Op != fabric.OpRecv {
		q.fatalf("completion with Op %d: %+v", c.Op, c)
	}
	if int64(c.Buf) >= int64(len(q.owner)) {
		q.fatalf("completion of a buffer outside the arena: %+v", c)
	}
	if was := q.owner[c.Buf]; was.port != q || was.op != c.Op {
		q.fatalf("completion of a buffer not posted for it, or completed before: %+v", c)
	}
	q.owner[c.Buf] = owner{}
	if c.Op == fabric.OpSend {
		q.sending--
		if c.From != fabric.AddrUnknown {
			q.fatalf("completion of a send with From %d", c.From)
		}
	} else {
		q.posted--
	}
	whole := c.Errno == 0 && (c.Op == fabric.OpSend || int64(c.Len) <= int64(q.arena.Size()))
	if !whole && !q.tolerant {
		q.fatalf("completion with an error or cut off at %d bytes: %+v", q.arena.Size(), c)
	}
	if q.sourcer != nil && whole && c.Op == fabric.OpRecv {
		q.sources = append(q.sources, q.sourcer.AppendSource(nil, &c))
	}
	switch {
	case !whole:
		q.spoiled = append(q.spoiled, c)
	case c.Landed > 0:
		if c.Op != fabric.OpRecv {
			q.fatalf("a send that landed: %+v", c)
		}
		q.arrived = append(q.arrived, datagram{c.From, q.landed(c)})
	case c.Op == fabric.OpRecv:
		data := bytes.Clone(q.arena.Bytes(c.Buf)[:c.Len])
		q.arrived = append(q.arrived, datagram{c.From, data})
	}
	q.give(c.Buf)
}

// The method "settle" polls until every send of the port has completed.
func (q *port) settle() {
	q.tb.Helper()
	q.await("the completions of sends", func() bool {
		q.poll(batchMax)
		return q.sending == 0
	})
}

// The method "collect" polls until n datagrams have arrived since the previous call of "collect",
// and returns the n datagrams.
func (q *port) collect(n int) []datagram {
	q.tb.Helper()
	deadline := time.Now().Add(q.f.Patience)
	for len(q.arrived) < n {
		if q.poll(batchMax) == 0 {
			runtime.Gosched()
		}
		if time.Now().After(deadline) {
			q.fatalf("after %v, %d of %d datagrams have arrived", q.f.Patience, len(q.arrived), n)
		}
	}
	q.hush(n)
	got := q.arrived
	q.arrived = nil
	return got
}

// The method "hush" polls 50 times, and then fails the test if more than n datagrams have arrived
// since the latest call of the method "collect".
func (q *port) hush(n int) {
	q.tb.Helper()
	for range 50 {
		q.poll(batchMax)
	}
	if len(q.arrived) > n {
		q.fatalf("%d datagrams arrived, want %d; the last: %x", len(q.arrived), n,
			head(q.arrived[len(q.arrived)-1].data))
	}
}

// expect receives datagrams with the given contents in the given order.
func (q *port) expect(want ...[]byte) {
	q.tb.Helper()
	got := q.collect(len(want))
	for i := range got {
		if !bytes.Equal(got[i].data, want[i]) {
			q.fatalf("datagram %d of %d is %d bytes %x..., want %d bytes %x...", i, len(want),
				len(got[i].data), head(got[i].data), len(want[i]), head(want[i]))
		}
	}
}

func (q *port) expectAnyOrder(want ...[]byte) {
	q.tb.Helper()
	for _, d := range q.collect(len(want)) {
		i := slices.IndexFunc(want, func(w []byte) bool { return bytes.Equal(w, d.data) })
		if i < 0 {
			q.fatalf("a datagram of %d bytes %x... is none of those awaited", len(d.data), head(d.data))
		}
		want = slices.Delete(want, i, i+1)
	}
}

func head(b []byte) []byte { return b[:min(len(b), 16)] }

// The function "pattern" returns "size" bytes of test data that are determined by the argument
// "key".
func pattern(key uint64, size int) []byte {
	b := make([]byte, size)
	fill(b, key)
	return b
}

// The function "fill" writes test data to the slice "b". The first eight bytes of the test data are
// derived from the argument "key", and the bytes after them are pseudo-random bytes with "key" as
// the seed.
func fill(b []byte, key uint64) {
	x := next(key*0x9e3779b97f4a7c15 + 0x6a09e667f3bcc909)
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], x)
	b = b[copy(b, word[:]):]
	for len(b) > 0 {
		b = b[copy(b, noise()[x%noiseBytes:]):]
		x = next(x)
	}
}

const noiseBytes = 1 << 17

var noise = sync.OnceValue(func() []byte {
	b := make([]byte, 0, noiseBytes)
	for x := uint64(1); len(b) < noiseBytes; {
		x = next(x)
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return b
})

func next(x uint64) uint64 {
	x ^= x << 13
	x ^= x >> 7
	return x ^ x<<17
}
