//go:build linux

package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/btl/internal/port"
	"gobtl/btl/internal/share"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/fabric/shm"
	"gobtl/internal/testenv"
)

// Who makes a pass every 16 ms hears a third peer within a few of them, although the fabric looks
// for new ones with one in hundreds of polls.
func TestShmSlowPasses(t *testing.T) {
	p := newShmPair(t)
	p.round(t) // who has a peer looks for others less often
	third := openShm(t, Config{})
	ep, err := third.Connect(p.now, p.x.Name())
	if err != nil {
		t.Fatal(err)
	}
	const between = 16 * time.Millisecond
	passes := 0
	for ; !ep.Connected() && passes < 100; passes++ {
		for range 16 {
			p.now = p.now.Add(between / 16)
			p.pass(t, third)
		}
		p.pass(t, p.x)
	}
	if passes > 8 {
		t.Errorf("connected %t after %d passes, one every %v", ep.Connected(), passes, between)
	}
}

func openShm(t testing.TB, cfg Config) *Module {
	t.Helper()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: shm.ProviderName})
	if errors.Is(err, fabric.ErrUnavailable) {
		testenv.Missing(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	dc, err := cfg.DomainConfig(infos[0])
	if err != nil {
		t.Fatal(err)
	}
	dom, err := fabric.Open(infos[0], dc)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(dom, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Handle(3, func(*Endpoint, Tag, []byte) {}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// A peer reads a stream for a while and then stands still, on a fabric where sends to it wait for
// room. Connecting to it again and again must not take the control buffers by which another peer
// lives.
func TestOnePeerStandsStill(t *testing.T) {
	a, still, other := openShm(t, Config{}), openShm(t, Config{}), openShm(t, Config{})
	now := Time(1)
	run := func(d, step time.Duration, mods ...*Module) {
		for end := now.Add(d); now < end; {
			now = now.Add(step)
			for _, m := range mods {
				if _, err := m.Progress(now); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	connect := func(from, to *Module) *Endpoint {
		ep, err := from.Connect(now, to.Name())
		if err != nil {
			t.Fatal(err)
		}
		return ep
	}
	in, out := connect(other, a), connect(a, still)
	run(500*time.Millisecond, time.Millisecond, a, still, other)
	fill := func() {
		for range 100 {
			f, err := out.Alloc(3, 60000)
			if err != nil {
				return
			}
			if _, err := out.Send(now, f); err != nil {
				return
			}
		}
	}
	for range 200 {
		fill()
		run(200*time.Microsecond, 20*time.Microsecond, a, still, other)
	}
	for range 300 {
		fill()
		run(time.Millisecond, time.Millisecond, a, other)
	}
	if a.all.Port.Command.Posted+a.all.Port.Data.Posted == 0 {
		t.Fatal("no send waits for the peer: the test shows nothing")
	}
	// One of its Hellos was answered.
	c := &a.all.Port.Command
	b, to, ok := a.all.Port.TakeForAnswer(a.Now(), c, nameOf(still).Command)
	if !ok {
		t.Fatal("no buffer for an answer")
	}
	c.Put(b, 24, to)
	for range 5 {
		for n := 0; out.Err() == nil && n < 100; n++ {
			run(100*time.Millisecond, time.Millisecond, a, other)
		}
		if out.Err() == nil {
			t.Fatal("the peer that stands still is not given up")
		}
		run(10*time.Millisecond, time.Millisecond, a, other)
		if posted := a.all.Port.Command.Posted + a.all.Port.Data.Posted; posted > 0 {
			t.Fatalf("%d sends wait for a peer that was given up", posted)
		}
		out = connect(a, still)
	}
	if err := a.Check(); err != nil {
		t.Error(err)
	}
	f, err := in.Prepare(3, make([]byte, 100))
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	f.Signal = true
	f.OnDone = func(_ *Fragment, err error) {
		if told++; err != nil {
			t.Error("another peer's send:", err)
		}
	}
	if _, err := in.Send(now, f); err != nil {
		t.Fatal(err)
	}
	run(20*time.Second, time.Millisecond, a, other)
	if told != 1 || in.Err() != nil {
		t.Errorf("another peer was told %d times: %v", told, in.Err())
	}
	out.Abort()
	run(2*port.CancelAfter, time.Millisecond, a, other)
	posted := a.all.Port.Command.Posted + a.all.Port.Data.Posted
	if posted > 0 || len(a.all.Buffers.FreeSegs) != a.cfg.SendBuffers ||
		len(a.all.Port.FreeCtl) != port.ControlBuffers || len(a.all.Port.Leaving) > 0 {
		t.Errorf("given up: %d sends wait, %d send and %d control buffers free, %d addresses leaving",
			posted, len(a.all.Buffers.FreeSegs), len(a.all.Port.FreeCtl), len(a.all.Port.Leaving))
	}
	if err := a.Check(); err != nil {
		t.Error(err)
	}
}

// An owner connects to a peer that was given up again at once, when it is told of its end, as most
// do, whether the module has found it dead or the owner has lost patience. What waits in the fabric
// for the end that is over ends all the same.
func TestStandsStillIsCalledAgain(t *testing.T) {
	for name, abort := range map[string]bool{"dead": false, "aborted": true} {
		t.Run(name, func(t *testing.T) { callAgain(t, abort) })
	}
}

func callAgain(t *testing.T, abort bool) {
	a, still := openShm(t, Config{}), openShm(t, Config{})
	now := Time(1)
	run := func(passes int, step time.Duration, mods ...*Module) {
		for range passes {
			now = now.Add(step)
			for _, m := range mods {
				if _, err := m.Progress(now); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	out, err := a.Connect(now, still.Name())
	if err != nil {
		t.Fatal(err)
	}
	run(500, time.Millisecond, a, still)
	sent, done, calls := 0, 0, 0
	lent := make([]byte, 60_000)
	fill := func() {
		for range 100 {
			f, err := out.Prepare(3, lent)
			if err != nil {
				return
			}
			f.Signal, f.OnDone = true, func(*Fragment, error) { done++ }
			if _, err := out.Send(now, f); err != nil {
				return
			}
			sent++
		}
	}
	for range 200 {
		fill()
		run(10, 20*time.Microsecond, a, still)
	}
	for range 300 {
		fill()
		run(1, time.Millisecond, a)
	}
	a.OnEndpoint(func(_ *Endpoint, ev Event, _ error) {
		if ev != EventFailed && ev != EventClosed {
			return
		}
		calls++
		if _, err := a.Connect(now, still.Name()); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	if abort {
		if a.all.Port.Command.Posted+a.all.Port.Data.Posted == 0 {
			t.Fatal("no send waits for the peer: the test shows nothing")
		}
		out.Abort()
	}
	for n := 0; out.Err() == nil && n < 30_000; n++ {
		run(1, time.Millisecond, a)
	}
	run(20, time.Millisecond, a)
	want := ErrPeerDead
	if abort {
		want = ErrClosed
	}
	if !errors.Is(out.Err(), want) || calls == 0 || done < sent {
		t.Errorf("%v, called %d times: %d of %d sends have ended", out.Err(), calls, done, sent)
	}
	if err := a.Check(); err != nil {
		t.Error(err)
	}
}

// A peer that stands still takes only a part of the room for sends from another one, which is
// served without delay.
func TestStandsStillLeavesRoom(t *testing.T) {
	cfg := Config{TxDepth: 64}
	a, still, other := openShm(t, cfg), openShm(t, Config{}), openShm(t, Config{})
	now := Time(1)
	run := func(passes int, mods ...*Module) {
		for range passes {
			now = now.Add(20 * time.Microsecond)
			for _, m := range mods {
				if _, err := m.Progress(now); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	var to [2]*Endpoint
	for i, m := range []*Module{still, other} {
		ep, err := a.Connect(now, m.Name())
		if err != nil {
			t.Fatal(err)
		}
		to[i] = ep
	}
	run(20_000, a, still, other)
	fill := func() {
		for range 100 {
			f, err := to[0].Alloc(3, 60000)
			if err != nil {
				return
			}
			if _, err := to[0].Send(now, f); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 200 { // it reads for a while, so that it has credits
		fill()
		run(10, a, still, other)
	}
	for range 200 {
		fill()
		run(10, a, other)
	}
	if n := to[0].c.Counts.Held; n < cfg.TxDepth/4 {
		t.Fatalf("%d sends wait for the peer: the test shows nothing", n)
	}
	if room := a.all.Port.Command.Room(); room < cfg.TxDepth/4 {
		t.Errorf("room for %d sends of %d", room, cfg.TxDepth)
	}
	f, err := to[1].Prepare(3, make([]byte, 100_000))
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	f.Signal, f.OnDone = true, func(_ *Fragment, err error) {
		if told++; err != nil {
			t.Error("another peer's send:", err)
		}
	}
	if _, err := to[1].Send(now, f); err != nil {
		t.Fatal(err)
	}
	if run(200, a, other); told != 1 {
		t.Error("another peer is not served")
	}
	if err := a.Check(); err != nil {
		t.Error(err)
	}
}

// keepsFor is a fabric that keeps all sends to one address.
type keepsFor struct {
	fabric.Endpoint
	to fabric.Addr
}

func (k *keepsFor) Post(sends []fabric.Send) (int, error) {
	for i := range sends {
		if sends[i].To == k.to {
			continue
		}
		if n, err := k.Endpoint.Post(sends[i : i+1]); n != 1 || err != nil {
			return i, err
		}
	}
	return len(sends), nil
}

// An endpoint that may take no more control buffers does not hold up the ACKs of the others, and
// has no pass made in vain.
func TestAckPassesOver(t *testing.T) {
	b := newBench(t, mem.Config{}, 3, smallConfig())
	m := b.mods[0]
	if err := m.Handle(3, func(*Endpoint, Tag, []byte) {}); err != nil {
		t.Fatal(err)
	}
	senders := [2]*Endpoint{b.connect(1, 0), b.connect(2, 0)}
	c, to := endpointOf(m.all.Peers.At(0)).c.AckPath() // of the first
	// The fabric keeps what it takes, and what goes to the first for ever.
	c.Caps.InjectBytes = 0
	keeps := &keepsFor{to: to}
	c.Interpose(func(ep fabric.Endpoint) fabric.Endpoint {
		keeps.Endpoint = ep
		return keeps
	})
	var held []fabric.Buf
	for buf, ok := m.all.Buffers.TakeControl(c, to); ok; buf, ok = m.all.Buffers.TakeControl(c, to) {
		c.Put(buf, 24, to)
		held = append(held, buf)
	}
	c.Post()
	if len(held) != port.ControlBuffers/2 {
		t.Errorf("one address took %d control buffers of %d", len(held), port.ControlBuffers)
	}
	told := [2]int{}
	for i, ep := range senders {
		f, err := ep.Prepare(3, make([]byte, 100))
		if err != nil {
			t.Fatal(err)
		}
		f.Signal, f.OnDone = true, func(*Fragment, error) { told[i]++ }
		if _, err := ep.Send(b.now, f); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		b.now = b.now.Add(100 * time.Microsecond)
		for _, m := range b.mods {
			if _, err := m.Progress(b.now); err != nil { // Check would miss the sends of what is held
				t.Fatal(err)
			}
		}
	}
	if told != [2]int{0, 1} {
		t.Errorf("told of %v sends, want only the second one", told)
	}
	if at := m.Deadline(); at <= b.now {
		t.Errorf("asks for a pass at %v, it is %v", at, b.now)
	}
	keeps.to = fabric.Addr(1 << 40) // nobody
	for _, buf := range held {
		c.SendDone(buf)
	}
	m.all.Buffers.SettleSends()
	m.all.Rest.Set(0)
	b.until("acknowledged", 100*time.Microsecond, time.Second, func() bool { return told[0] == 1 })
}

// Several peers read a stream for a while and then stand still, one after the other. What they have
// not taken leaves something of all that is shared for one that reads.
func TestSeveralStandStill(t *testing.T) {
	const buffers, count, burst, size = 64, 6, 100, 60000
	cfg := Config{SendBuffers: buffers, RecvDepth: 256} // they fit 32 bits
	a, other := openShm(t, cfg), openShm(t, cfg)
	now := Time(1)
	run := func(passes int, mods ...*Module) {
		for range passes {
			now = now.Add(20 * time.Microsecond)
			for _, m := range mods {
				if _, err := m.Progress(now); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	connect := func(to *Module) *Endpoint {
		ep, err := a.Connect(now, to.Name())
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; !ep.Connected() && n < 10_000; n++ {
			run(1, a, to, other)
		}
		return ep
	}
	live, mem := connect(other), make([]byte, size)
	send := func(ep *Endpoint, done func(*Fragment, error)) bool {
		f, err := ep.Prepare(3, mem)
		if err != nil {
			return false
		}
		f.Signal, f.OnDone = true, done
		if _, err = ep.Send(now, f); err != nil {
			t.Fatal(err)
		}
		return true
	}
	for i := range count {
		still := openShm(t, cfg)
		out := connect(still)
		for n := range 400 {
			for range 100 {
				if !send(out, nil) {
					break
				}
			}
			if n < 300 {
				run(4, a, still, other)
			} else {
				run(4, a, other)
			}
		}
		sent, told := 0, 0
		for passes := 0; told < burst && passes < 20_000; passes++ {
			for sent < burst && send(live, func(_ *Fragment, err error) {
				if told++; err != nil {
					t.Error(err)
				}
			}) {
				sent++
			}
			run(1, a, other)
		}
		if told < burst {
			t.Fatalf("%d peers stand still, %d sends wait for them, %d send buffers are free: %d of %d "+
				"sends to one that reads have ended", i+1, a.all.Port.Command.Posted,
				len(a.all.Buffers.FreeSegs), told,
				burst)
		}
		if err := a.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if a.all.Port.Command.Posted < buffers/2 {
		t.Errorf("%d sends wait: the test shows nothing", a.all.Port.Command.Posted)
	}
	if free := len(a.all.Buffers.FreeSegs); free < buffers/share.NewcomersShare/2 {
		t.Errorf("%d of %d send buffers are left by %d peers that stand still", free, buffers, count)
	}
}

// A poll that has a landing asks for no more than lands: that there is more is known all the same,
// for by that the dead are told from those who were not read yet.
func TestLeftBehindLanding(t *testing.T) {
	const large = 300_000
	cfg := Config{SendBuffers: 64, RecvDepth: 256} // they fit 32 bits
	a, b := openShm(t, cfg), openShm(t, cfg)
	now := Time(1)
	pass := func(m *Module) int {
		now = now.Add(20 * time.Microsecond)
		n, err := m.Progress(now)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	ep, err := a.Connect(now, b.Name())
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; !ep.Connected() && n < 10_000; n++ {
		pass(a)
		pass(b)
	}
	cut := 0
	for range 8 {
		for _, size := range []int{large, large, 2000, 2000, 2000, 2000} {
			f, err := ep.Prepare(3, make([]byte, size))
			if err != nil {
				t.Fatal(err)
			}
			if _, err = ep.Send(now, f); err != nil {
				t.Fatal(err)
			}
		}
		for range 8 {
			pass(a)
		}
		for left := true; ; { // a rests: what is there now is all
			landed := counter(b, CntLanded)
			n := pass(b)
			if n > 0 && !left {
				t.Fatalf("%d packets come after a pass that has left nothing", n)
			}
			if left = b.all.Port.Command.Left; n == 0 {
				break
			}
			if left && counter(b, CntLanded) > landed && n < b.cfg.limits.PollBatch {
				cut++
			}
		}
		if b.all.Port.Command.Left {
			t.Fatal("something is left, and does not come")
		}
	}
	if cut == 0 {
		t.Error("no poll was cut short by a landing: the test shows nothing")
	}
}

// A peer that is alive hears the last word of who aborts and connects again at once: else what it
// has sent would wait for PeerTimeout.
func TestCalledAgainHearsLastWord(t *testing.T) {
	a, b := openShm(t, Config{}), openShm(t, Config{})
	now := Time(1)
	run := func(passes int) {
		for range passes {
			now = now.Add(10 * time.Microsecond)
			for _, m := range []*Module{a, b} {
				if _, err := m.Progress(now); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	var ended error
	b.OnEndpoint(func(_ *Endpoint, ev Event, err error) {
		if ev == EventFailed {
			ended = err
		}
	})
	out, err := a.Connect(now, b.Name())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		run(1000)
		if !out.Connected() {
			t.Fatal("not connected")
		}
		f, err := out.Alloc(3, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Send(now, f); err != nil || a.all.Port.Command.Posted == 0 {
			t.Fatalf("%v, %d sends under way", err, a.all.Port.Command.Posted)
		}
		out.Abort()
		if out, err = a.Connect(now, b.Name()); err != nil {
			t.Fatal(err)
		}
		run(1000)
		if !errors.Is(ended, ErrPeerClosed) {
			t.Fatalf("the peer's end has ended with %v", ended)
		}
		ended = nil
	}
}
