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

// The memory of a get is exposed for who answers alone: another peer that knows the handle is
// refused, and writes nothing.
func TestGetAnsweredByOwnerAlone(t *testing.T) {
	l := newRemoteLab(t, mem.Config{}, smallConfig(), false)
	stranger := l.connect(l.add(smallConfig(), ""), 0)
	into := bytes.Repeat([]byte{7}, 64)
	get, err := l.ep.PrepareGet(into, l.region.Handle(), 0)
	if err != nil {
		t.Fatal(err)
	}
	told := errPending
	put, err := stranger.PreparePut(make([]byte, 8), get.op.Into().Handle(), 0)
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
