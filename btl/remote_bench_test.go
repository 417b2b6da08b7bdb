package btl

import (
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// remoteRound returns a function that does one operation of each kind, and waits for them.
func remoteRound(tb testing.TB, size int) func() {
	b := newBench(tb, mem.Config{InjectBytes: 1472}, 2, Config{})
	region, err := b.mods[1].Expose(make([]byte, size+8), RemoteAll)
	if err != nil {
		tb.Fatal(err)
	}
	if err := b.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {}); err != nil {
		tb.Fatal(err)
	}
	ep := b.connect(0, 1)
	msg, into, says := make([]byte, size), make([]byte, size), []byte("done")
	left := 0
	onDone := func(_ *Fragment, err error) {
		if left--; err != nil {
			tb.Error(err)
		}
	}
	send := func(f *Fragment, err error) {
		if err != nil {
			tb.Fatal(err)
		}
		left++
		f.OnDone = onDone
		if _, err := ep.Send(b.now, f); err != nil {
			tb.Fatal(err)
		}
	}
	return func() {
		send(ep.PreparePutNotice(msg, region.Handle(), 0, 1, says))
		send(ep.PrepareGet(into, region.Handle(), 0))
		ep.Fence(b.now)
		send(ep.PrepareAtomic(Atomic{
			Target: region.Handle(), Offset: uint64(size) &^ 7, Action: ActionAdd, WidthBytes: 8,
			Fetch: true,
		}))
		for left > 0 {
			b.now = b.now.Add(5 * time.Microsecond)
			for _, m := range b.mods {
				if _, err := m.Progress(b.now); err != nil {
					tb.Fatal(err)
				}
			}
		}
	}
}

// Operations allocate nothing once their tables have grown.
func TestRemoteAllocs(t *testing.T) {
	for _, size := range []int{8, 100_000} {
		round := remoteRound(t, size)
		for range 300 {
			round()
		}
		if n := testing.AllocsPerRun(100, round); n > 0 {
			t.Errorf("%d bytes: %v allocations a round", size, n)
		}
	}
}

// Exposing memory in a Region of the caller's and withdrawing it allocates nothing.
func TestExposeAllocs(t *testing.T) {
	expose := exposer(t, Config{})
	expose()
	if n := testing.AllocsPerRun(100, expose); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func exposer(tb testing.TB, cfg Config) func() {
	b := newBench(tb, mem.Config{}, 1, cfg)
	r, block := new(Region), make([]byte, 4096)
	return func() {
		if err := b.mods[0].ExposeAs(r, block, RemoteAll, nil); err != nil {
			tb.Fatal(err)
		}
		r.Close()
	}
}

func BenchmarkExpose(b *testing.B) {
	expose := exposer(b, Config{})
	for b.Loop() {
		expose()
	}
}

func BenchmarkRemoteRound8(b *testing.B) {
	round := remoteRound(b, 8)
	for b.Loop() {
		round()
	}
}

func BenchmarkRemoteRound100K(b *testing.B) {
	round := remoteRound(b, 100_000)
	b.SetBytes(200_000)
	for b.Loop() {
		round()
	}
}
