package btl

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strconv"
	"syscall"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// lab is a bench whose modules stand on spied domains, with their events written down.
type lab struct {
	*bench
	names  map[string][]byte // stable endpoint names and who has them now
	spies  []*spyDomain      // by module
	events [][]happening     // by module
	rng    *rand.Rand

	late, hold bool // how the spies of further modules treat sends
}

// happening is a call of OnEndpoint.
type happening struct {
	ep  *Endpoint
	ev  Event
	err error
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x9E3779B97F4A7C15)) }

// smallConfig keeps Check cheap and the bounds near.
func smallConfig() Config {
	return Config{SendBuffers: 64, RecvDepth: 64, FragmentsMax: 64, PeersMax: 16}
}

// apart is a small configuration of which every message is a packet by itself.
func apart() Config {
	cfg := smallConfig()
	cfg.PackBytes = 1
	return cfg
}

// newLab opens n modules of one configuration.
func newLab(tb testing.TB, net mem.Config, n int, cfg Config) *lab {
	tb.Helper()
	l := &lab{bench: newBench(tb, net, 0, cfg), names: map[string][]byte{}, rng: newRand(1)}
	for range n {
		l.add(cfg, "")
	}
	return l
}

// add opens one more module. With an alias its endpoints have names that a later module can take
// over, as a process can that binds the port of an earlier one. It returns the module's index.
func (l *lab) add(cfg Config, alias string) int {
	l.tb.Helper()
	spy := &spyDomain{tb: l.tb, lab: l, alias: alias, late: l.late, hold: l.hold}
	l.wrap = func(d fabric.Domain) fabric.Domain {
		spy.Domain = d
		return spy
	}
	if cfg.Random == nil {
		cfg.Random = newRand(uint64(len(l.mods)) + 77).Uint64
	}
	m := l.open(cfg)
	l.wrap = nil
	i := len(l.mods)
	l.mods = append(l.mods, m)
	l.spies = append(l.spies, spy)
	l.events = append(l.events, nil)
	m.OnEndpoint(func(ep *Endpoint, ev Event, err error) {
		l.events[i] = append(l.events[i], happening{ep, ev, err})
	})
	return i
}

// ends returns the final events of an endpoint of module i.
func (l *lab) ends(i int, ep *Endpoint) []happening {
	var all []happening
	for _, h := range l.events[i] {
		if h.ep == ep && h.ev != EventConnected {
			all = append(all, h)
		}
	}
	return all
}

// accepted returns the latest endpoint of module i that connected, as its event told.
func (l *lab) accepted(i int) *Endpoint {
	l.tb.Helper()
	for j := len(l.events[i]) - 1; j >= 0; j-- {
		if l.events[i][j].ev == EventConnected {
			return l.events[i][j].ep
		}
	}
	l.tb.Fatalf("module %d has not connected to anybody", i)
	return nil
}

// pair connects module 0 to module 1 and returns both ends.
func (l *lab) pair() (a, b *Endpoint) {
	l.tb.Helper()
	a = l.connect(0, 1)
	return a, l.accepted(1)
}

// settle runs until every module has nothing to do but to wait for packets or long timers.
func (l *lab) settle(limit time.Duration) {
	l.tb.Helper()
	quiet := 0 // passes: one may have nothing to do but to book what the one before it delivered
	l.until("idle", 20*time.Microsecond, limit, func() bool {
		quiet++
		for _, m := range l.mods {
			if !m.closed && (inFlight(m) > 0 || m.all.Acks.Len() > 0 ||
				m.all.Sched.Waiting() > 0 ||
				m.rx.Deferred.Pending || m.all.Port.Command.Posted+m.all.Port.Data.Posted > 0) {
				quiet = 0
			}
		}
		if l.net.Held() > 0 {
			quiet = 0
		}
		return quiet > 1
	})
}

// wantIdle checks that a module's resources are all back (contract 7), and that the credits granted
// are those of the endpoints that are connected.
func (l *lab) wantIdle(i int) {
	l.tb.Helper()
	m := l.mods[i]
	if n := l.spies[i].afterRemove; n != 0 {
		l.tb.Errorf("module %d: %d sends to removed addresses", i, n)
	}
	err := m.CheckIdle()
	if err == nil {
		return
	}
	l.tb.Errorf("module %d: %v", i, err)
	for _, ep := range m.endpoints() {
		if ep != nil {
			p, f := ep.Outstanding()
			l.tb.Logf("module %d: endpoint %d: state %d, closing %v, handshake %+v, %d packets, "+
				"%d fragments, room %d, asm %d, error %v", i, ep.c.ID.Slot(), ep.c.ID.State, ep.c.Closing,
				ep.c.ID.Handshake, p, f,
				ep.c.Snd.Room(), ep.c.Asm.ActiveBytes(), ep.Err())
		}
	}
}

// wantEmpty checks that nothing of a module refers to an endpoint any more (contract 10).
func (l *lab) wantEmpty(i int) {
	l.tb.Helper()
	m := l.mods[i]
	l.wantIdle(i)
	if n := peersOf(m); n != 0 {
		l.tb.Errorf("module %d without peers: %d endpoints", i, n)
	}
	if _, answers := m.all.Port.Inserted(); l.spies[i].inserts() != answers {
		l.tb.Errorf("module %d without peers: %d addresses inserted, want %d", i, l.spies[i].inserts(),
			answers)
	}
}

// spyDomain stands between a module and its domain: it counts, renames, delays and breaks.
type spyDomain struct {
	fabric.Domain

	tb    testing.TB
	lab   *lab
	alias string
	addrs []spyAddr
	eps   []*spyEndpoint

	// late has sends read their buffers only when they complete, as a NIC may, and complete only some
	// passes later; hold has them leave at once and complete when hold is set to false.
	late, hold bool
	// failRecv and failSend say which completions report an error; refuse which posts do.
	failRecv, failSend func() bool
	refuse             func() error

	afterRemove int
	regions     int  // registered now
	single      bool // the send that is posted has none to the same peer beside it
	gathered    int  // sends that gathered from a region
}

type spyAddr struct {
	name    string
	inserts int
	inner   map[string]fabric.Addr // by the real name
}

// Insert gives out addresses of its own, which stay with the name whoever has it.
func (d *spyDomain) Insert(name []byte) (fabric.Addr, error) {
	if _, err := d.resolve(string(name)); err != nil {
		return 0, err
	}
	for i := range d.addrs {
		if d.addrs[i].name == string(name) {
			d.addrs[i].inserts++
			return fabric.Addr(i + 1), nil
		}
	}
	d.addrs = append(d.addrs, spyAddr{string(name), 1, map[string]fabric.Addr{}})
	return fabric.Addr(len(d.addrs)), nil
}

func (d *spyDomain) resolve(name string) (fabric.Addr, error) {
	if n, ok := d.lab.names[name]; ok {
		name = string(n)
	}
	return d.Domain.Insert([]byte(name))
}

func (d *spyDomain) Remove(a fabric.Addr) error {
	if a == 0 || int(a) > len(d.addrs) || d.addrs[a-1].inserts == 0 {
		d.tb.Errorf("address %d removed, which is not inserted", a)
		return fabric.ErrBadName
	}
	d.addrs[a-1].inserts--
	return nil
}

func (d *spyDomain) inserts() (n int) {
	for i := range d.addrs {
		n += d.addrs[i].inserts
	}
	return n
}

func (d *spyDomain) RegisterRegion(mem []byte) (fabric.Region, error) {
	r, err := d.Domain.RegisterRegion(mem)
	if err == nil {
		d.regions++
	}
	return r, err
}

func (d *spyDomain) DeregisterRegion(r fabric.Region) error {
	err := d.Domain.DeregisterRegion(r)
	if err == nil {
		d.regions--
	}
	return err
}

func (d *spyDomain) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	inner, err := d.Domain.OpenEndpoint(cfg)
	if err != nil {
		return nil, err
	}
	e := &spyEndpoint{Endpoint: inner, d: d, caps: inner.Caps(), name: inner.Name()}
	if d.alias != "" {
		e.name = []byte(d.alias + "/" + strconv.Itoa(len(d.eps)))
		d.lab.names[string(e.name)] = inner.Name()
	}
	if d.late || d.hold || d.failSend != nil {
		e.caps.InjectBytes = 0 // every send completes through a Completion of the spy's
	}
	d.eps = append(d.eps, e)
	return e, nil
}

type spyEndpoint struct {
	fabric.Endpoint

	d    *spyDomain
	caps fabric.Caps
	name []byte
	wait []spySend
}

// spySend is a send in the hands of the fabric.
type spySend struct {
	send fabric.Send
	copy []byte
	gone bool // is on the wire already
	age  int
}

func (e *spyEndpoint) Caps() fabric.Caps { return e.caps }
func (e *spyEndpoint) Name() []byte      { return bytes.Clone(e.name) }

// Land implements fabric.Lander for the endpoint under the spy.
func (e *spyEndpoint) Land(mem []byte, headBytes int) bool {
	return e.Endpoint.(fabric.Lander).Land(mem, headBytes)
}

var errSpy = &fabric.Error{Provider: "spy", Op: "post", Errno: int(syscall.EIO), Text: "on request"}

func (e *spyEndpoint) Post(sends []fabric.Send) (int, error) {
	for i := range sends {
		if e.d.refuse != nil {
			if err := e.d.refuse(); err != nil {
				return i, err
			}
		}
		s := &sends[i]
		if s.To == 0 || int(s.To) > len(e.d.addrs) || e.d.addrs[s.To-1].inserts == 0 {
			e.d.afterRemove++
			return i, errSpy
		}
		e.d.single = isSingle(sends, i)
		err := e.postOne(*s)
		e.d.single = false
		if err != nil {
			return i, err
		}
	}
	return len(sends), nil
}

// isSingle says whether a provider cannot make one message of a send and another one of its Post.
func isSingle(sends []fabric.Send, i int) bool {
	to := sends[i].To
	return (i == 0 || sends[i-1].To != to) && (i == len(sends)-1 || sends[i+1].To != to)
}

func (e *spyEndpoint) postOne(s fabric.Send) error {
	for i := range e.wait {
		if e.wait[i].send.Buf == s.Buf {
			e.d.tb.Errorf("buffer %d posted while it is posted", s.Buf)
		}
	}
	if s.Region != 0 {
		e.d.gathered++
	}
	if e.caps.InjectBytes > 0 {
		return e.transmit(s)
	}
	if len(e.wait) == e.caps.TxDepth {
		return fabric.ErrAgain
	}
	w := spySend{send: s, gone: !e.d.late}
	if w.gone {
		if err := e.transmit(s); err != nil {
			return err
		}
	}
	arena := e.d.Arena()
	w.copy = bytes.Clone(arena.Bytes(s.Buf)[:s.Len])
	e.wait = append(e.wait, w)
	return nil
}

// transmit gives a send to the real endpoint, under the address that its name has now.
func (e *spyEndpoint) transmit(s fabric.Send) error {
	a := &e.d.addrs[s.To-1]
	actual := a.name
	if n, ok := e.d.lab.names[actual]; ok {
		actual = string(n)
	}
	to, ok := a.inner[actual]
	if !ok {
		var err error
		if to, err = e.d.Domain.Insert([]byte(actual)); err != nil {
			return err
		}
		a.inner[actual] = to
	}
	s.To = to
	_, err := e.Endpoint.Post([]fabric.Send{s})
	if errors.Is(err, fabric.ErrAgain) {
		e.d.tb.Errorf("the network under the spy is full")
	}
	return err
}

func (e *spyEndpoint) Poll(out []fabric.Completion) (int, error) {
	n := 0
	for n < len(out) && len(e.wait) > 0 && !e.d.hold {
		w := &e.wait[0]
		if w.age++; w.age < 3 && e.d.late {
			break
		}
		arena := e.d.Arena()
		if !bytes.Equal(arena.Bytes(w.send.Buf)[:w.send.Len], w.copy) {
			e.d.tb.Errorf("buffer %d was altered while it was posted", w.send.Buf)
		}
		out[n] = fabric.Completion{Op: fabric.OpSend, Buf: w.send.Buf, From: fabric.AddrUnknown}
		if e.d.failSend != nil && e.d.failSend() {
			out[n].Errno = int32(syscall.EIO)
		} else if !w.gone {
			if err := e.transmit(w.send); err != nil {
				return n, err
			}
		}
		e.wait = e.wait[:copy(e.wait, e.wait[1:])]
		n++
	}
	got, err := e.Endpoint.Poll(out[n:])
	for i := n; i < n+got; i++ {
		if out[i].Op == fabric.OpRecv && e.d.failRecv != nil && e.d.failRecv() {
			out[i].Errno = int32(syscall.EIO)
		}
	}
	return n + got, err
}
