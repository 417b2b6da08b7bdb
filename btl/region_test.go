package btl

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// The handle of a region is never given again, though its place is, and has 32 random bits or more.
func TestHandleIsNew(t *testing.T) {
	b := newBench(t, mem.Config{}, 1, smallConfig())
	seen := map[Handle]bool{}
	var all, none Handle
	r := new(Region)
	for range 200 {
		if err := b.mods[0].ExposeAs(r, make([]byte, 8), RemoteAll, nil); err != nil {
			t.Fatal(err)
		}
		h := r.Handle()
		if seen[h] {
			t.Fatalf("handle %#x is given again", h)
		}
		seen[h] = true
		all, none = all|h, none|^h
		r.Close()
	}
	changing := 0
	for bits := all & none; bits != 0; bits &= bits - 1 {
		changing++
	}
	if changing < 32 {
		t.Errorf("only %d bits of handles differ", changing)
	}
}

// The memory of a get is exposed only for the peer that answers: another peer that knows the handle
// is refused, and writes nothing.
func TestGetAnsweredOnlyByOwner(t *testing.T) {
	l := newRemoteLab(t, mem.Config{}, smallConfig(), false)
	stranger := l.connect(l.add(smallConfig(), ""), 0)
	into := bytes.Repeat([]byte{7}, 64)
	get, err := l.ep.PrepareGet(into, l.region.Handle(), 0)
	if err != nil {
		t.Fatal(err)
	}
	told := errPending
	put, err := stranger.PreparePut(make([]byte, 8), get.c.Op.Into().Handle(), 0)
	if err != nil {
		t.Fatal(err)
	}
	put.Signal, put.OnDone = true, func(_ *Fragment, err error) { told = err }
	if _, err := stranger.Send(l.now, put); err != nil {
		t.Fatal(err)
	}
	l.until("the stranger's put ends", 20*time.Microsecond, time.Second, func() bool {
		return !errors.Is(told, errPending)
	})
	if !errors.Is(told, ErrRemoteAccess) || !bytes.Equal(into, bytes.Repeat([]byte{7}, 64)) {
		t.Errorf("a stranger's put into the memory of a get: %v, % x", told, into[:8])
	}
	if _, err := l.do(get, nil); err != nil {
		t.Error(err)
	}
}

// Peers that answer no get hold their share of the gets that a module may have in progress, and
// another peer always finds a place.
func TestGetsOfSilentPeers(t *testing.T) {
	cfg := smallConfig()
	cfg.FragmentsMax, cfg.PeersMax = 1<<14, 32
	b := newBench(t, mem.Config{}, 19, cfg)
	handle := Handle(1)
	into := make([]byte, 8)
	var held []*Fragment
	for i := 1; i < len(b.mods)-1; i++ {
		ep := b.connect(0, i)
		for {
			f, err := ep.PrepareGet(into, handle, 0)
			if errors.Is(err, ErrAgain) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, f)
		}
	}
	last := b.connect(0, len(b.mods)-1)
	f, err := last.PrepareGet(into, handle, 0)
	if err != nil {
		t.Fatalf("17 peers hold all gets: %v", err)
	}
	held = append(held, f)
	if _, err := b.mods[0].Expose(into, RemoteAll); err != nil {
		t.Errorf("gets hold the places of regions: %v", err)
	}
	for _, f := range held {
		if err := f.Endpoint().Free(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.mods[0].Check(); err != nil {
		t.Error(err)
	}
}

// A region for one peer cannot be exposed after the endpoint of that peer has ended: nobody could
// ever use that region.
func TestExposeForEnded(t *testing.T) {
	b := newBench(t, mem.Config{}, 2, smallConfig())
	ep := b.connect(0, 1)
	ep.Abort()
	var r Region
	if err := b.mods[0].ExposeAs(&r, make([]byte, 8), RemoteAll, ep); !errors.Is(err, ErrClosed) {
		t.Errorf("exposed for an endpoint that has ended: %v", err)
	}
	if n := b.mods[0].all.Remote.Exposed(); n != 0 {
		t.Errorf("%d regions are exposed", n)
	}
}
