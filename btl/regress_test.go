package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// regressConfig keeps the checks after each pass cheap.
func regressConfig() Config { return Config{SendBuffers: 128, RecvDepth: 64, PeersMax: 8} }

// A process that computed for long without Progress, then sends and closes, loses nothing.
func TestCloseAfterPause(t *testing.T) {
	b := newBench(t, mem.Config{}, 2, regressConfig())
	got := 0
	mustHandle(t, b.mods[1], func() { got++ })
	ep := b.connect(0, 1)
	for range 200 {
		b.step(10 * time.Millisecond)
	}
	b.now = b.now.Add(5 * time.Second)
	ep.c.All.At(b.now) // which send takes as the present instant
	ended := send(t, ep, 1<<16)
	ep.Close(b.now)
	b.until("closed", 10*time.Microsecond, time.Second, func() bool { return ep.Err() != nil })
	if *ended != nil || got != 1 {
		t.Errorf("sent before Close: %v, %d delivered", *ended, got)
	}
}

// A message that takes longer than CloseTimeout arrives whole before the connection closes, as long
// as no gap between the acknowledgements of its packets is longer than that.
func TestCloseWaitsWhileAcked(t *testing.T) {
	cfg := regressConfig()
	cfg.CloseTimeout = 100 * time.Millisecond
	b := newBench(t, mem.Config{}, 2, cfg)
	got := 0
	mustHandle(t, b.mods[1], func() { got++ })
	ep := b.connect(0, 1)
	ended, closeAt := send(t, ep, 1<<20), b.now
	ep.Close(b.now)
	b.until("closed", 20*time.Millisecond, 10*time.Second, func() bool { return ep.Err() != nil })
	if *ended != nil || got != 1 {
		t.Errorf("sent before Close: %v, %d delivered", *ended, got)
	}
	if took := b.now.Sub(closeAt); took < 2*cfg.CloseTimeout {
		t.Errorf("closed after %v: the test shows nothing", took)
	}
}

// A peer that talks but acknowledges nothing holds up no Close.
func TestCloseIgnoresTalk(t *testing.T) {
	b := newBench(t, mem.Config{}, 2, regressConfig())
	ep := b.connect(0, 1)
	b.net.SetFilter(func(_, _ []byte, _ []byte) mem.Verdict { return mem.Drop })
	ended := send(t, ep, 100)
	ep.Close(b.now)
	b.until("closed", time.Millisecond, 2*time.Second, func() bool {
		ep.c.Life.Heard(b.mods[0].all.Clock.Unpaused, 0)
		return ep.Err() != nil
	})
	if !errors.Is(*ended, ErrClosed) {
		t.Errorf("what was never acknowledged ended with %v", *ended)
	}
}

// A receiver without reassembly memory says that it is alive, and gets along when the dead peer
// that holds the memory is given up.
func TestReassemblyMemoryOfDeadPeer(t *testing.T) {
	cfg := regressConfig()
	cfg.FragmentBytesMax, cfg.ReassemblyBytesMax = 1<<16, 1<<16
	cfg.PeerTimeout, cfg.KeepAlive = time.Second, 3*time.Second
	b := newBench(t, mem.Config{}, 3, cfg)
	got := 0
	mustHandle(t, b.mods[2], func() { got++ })
	a, c := b.connect(0, 2), b.connect(1, 2)
	send(t, a, 1<<16)
	if _, err := b.mods[0].Progress(b.now.Add(1)); err != nil {
		t.Fatal(err)
	}
	dead := b.mods[0] // in the middle of its message
	b.mods = b.mods[1:]
	for range 10 {
		b.step(10 * time.Microsecond)
	}
	if b.mods[1].all.Pool.ActiveBytes() == 0 {
		t.Fatal("the dead peer holds no memory")
	}
	ended := send(t, c, 1<<15)
	b.until("delivered", time.Millisecond, 20*time.Second, func() bool {
		return got == 1 || !errors.Is(*ended, errPending)
	})
	b.until("ended", time.Millisecond, time.Second, func() bool {
		return !errors.Is(*ended, errPending)
	})
	if *ended != nil {
		t.Errorf("the living receiver's peer: %v", *ended)
	}
	b.mods = append(b.mods, dead)
}

// A peer that acknowledges nothing leaves send buffers to the others.
func TestDeadPeerLeavesBuffers(t *testing.T) {
	cfg := regressConfig()
	cfg.FragmentsMax = 512
	b := newBench(t, mem.Config{}, 3, cfg)
	a, c := b.connect(0, 1), b.connect(0, 2)
	mustHandle(t, b.mods[2], func() {})
	dead := b.mods[1]
	b.mods = []*Module{b.mods[0], b.mods[2]}
	for {
		f, err := a.Alloc(3, 8)
		if err != nil {
			break
		}
		f.Signal = true
		if _, err := a.Send(b.now, f); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.SendImmediate(b.now, 3, []byte("x")); err != nil {
		t.Errorf("to the living peer: %v", err)
	}
	b.mods = append(b.mods, dead)
}

// A fragment lent before the peer could say how much it takes is refused by Send, not by the peer.
func TestTooLargeAfterConnect(t *testing.T) {
	small := regressConfig()
	small.FragmentBytesMax = 1 << 12
	b := newBench(t, mem.Config{}, 1, regressConfig())
	b.mods = append(b.mods, b.open(small))
	ep, err := b.mods[0].Connect(b.now, b.mods[1].Name())
	if err != nil {
		t.Fatal(err)
	}
	f, err := ep.Prepare(3, make([]byte, 1<<16))
	if err != nil {
		t.Fatal(err)
	}
	b.connect(0, 1)
	if _, err := ep.Send(b.now, f); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Send: %v", err)
	}
	if err := ep.Free(f); err != nil {
		t.Error(err)
	}
}

// Connecting anew while the old endpoint drains takes nothing away from it.
func TestReconnectWhileClosing(t *testing.T) {
	cfg := regressConfig()
	cfg.FragmentsMax = 256
	b := newBench(t, mem.Config{}, 2, cfg)
	got := 0
	mustHandle(t, b.mods[1], func() { got++ })
	ep := b.connect(0, 1)
	var ended []*error
	for range 200 {
		ended = append(ended, send(t, ep, 4000))
	}
	ep.Close(b.now)
	again, err := b.mods[0].Connect(b.now, b.mods[1].Name())
	if err != nil || again == ep {
		t.Fatalf("connected anew: %v, the same: %v", err, again == ep)
	}
	b.until("both", 10*time.Microsecond, time.Second, func() bool {
		return ep.Err() != nil && again.Connected()
	})
	for i, e := range ended {
		if *e != nil {
			t.Fatalf("message %d: %v", i, *e)
		}
	}
	if got != len(ended) {
		t.Errorf("%d of %d delivered", got, len(ended))
	}
}

var errPending = errors.New("pending")

// send gives a message of size bytes to ep and returns where its end will be noted.
func send(tb testing.TB, ep *Endpoint, size int) *error {
	tb.Helper()
	f, err := ep.Prepare(3, make([]byte, size))
	if err != nil {
		tb.Fatal(err)
	}
	ended := errPending
	f.Signal = true
	f.OnDone = func(_ *Fragment, err error) { ended = err }
	if _, err := ep.Send(ep.Now(), f); err != nil {
		tb.Fatal(err)
	}
	return &ended
}

func mustHandle(tb testing.TB, m *Module, fn func()) {
	tb.Helper()
	if err := m.Handle(3, func(*Endpoint, Tag, []byte) { fn() }); err != nil {
		tb.Fatal(err)
	}
}
