package btl

import (
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// pingPong returns a function that does one round trip of size bytes between two modules.
func pingPong(tb testing.TB, size int) func() {
	b := newBench(tb, mem.Config{InjectBytes: 1472}, 2, Config{})
	pings, pongs := 0, 0
	echo := func(count *int, reply bool) Handler {
		return func(ep *Endpoint, tag Tag, data []byte) {
			*count++
			if reply {
				sendOrFail(tb, ep, tag, data)
			}
		}
	}
	b.mods[1].Handle(1, echo(&pings, true))
	b.mods[0].Handle(1, echo(&pongs, false))
	ep := b.connect(0, 1)
	msg := make([]byte, size)
	return func() {
		want := pongs + 1
		sendOrFail(tb, ep, 1, msg)
		for pongs != want {
			b.now = b.now.Add(2 * time.Microsecond)
			b.mods[1].Progress(b.now)
			b.mods[0].Progress(b.now)
		}
	}
}

func sendOrFail(tb testing.TB, ep *Endpoint, tag Tag, data []byte) {
	f, err := ep.Alloc(tag, len(data))
	if err == nil {
		copy(f.Bytes(), data)
		_, err = ep.Send(ep.Now(), f)
	}
	if err != nil {
		tb.Error(err)
	}
}

// stream returns a function that sends one message of size bytes and waits for its ACK.
func stream(tb testing.TB, size int, put bool) func() {
	return streamOn(tb, mem.Config{InjectBytes: 1472}, size, put)
}

func streamOn(tb testing.TB, net mem.Config, size int, put bool) func() {
	net.QueueDatagrams = 4096
	b := newBench(tb, net, 2, Config{})
	b.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {})
	region, err := b.mods[1].Expose(make([]byte, size), RemoteWrite)
	if err != nil {
		tb.Fatal(err)
	}
	ep := b.connect(0, 1)
	msg := make([]byte, size)
	ended := 0
	onDone := func(f *Fragment, err error) {
		if ended++; err != nil {
			tb.Error(err)
		}
	}
	return func() {
		want := ended + 1
		var f *Fragment
		var err error
		if put {
			f, err = ep.PreparePut(msg, region.Handle(), 0)
		} else {
			f, err = ep.Prepare(1, msg)
		}
		if err != nil {
			tb.Fatal(err)
		}
		f.OnDone, f.Signal = onDone, true
		if _, err := ep.Send(b.now, f); err != nil {
			tb.Fatal(err)
		}
		for ended != want {
			b.now = b.now.Add(5 * time.Microsecond)
			b.mods[0].Progress(b.now)
			b.mods[1].Progress(b.now)
		}
	}
}

// burst returns a function that sends 64 tiny messages, told and untold, and waits for their
// echoes.
func burst(tb testing.TB) func() {
	b := newBench(tb, mem.Config{InjectBytes: 1472}, 2, Config{})
	b.mods[1].Handle(1, func(ep *Endpoint, tag Tag, data []byte) {
		if err := ep.SendImmediate(b.now, tag, data); err != nil {
			tb.Error(err)
		}
	})
	echoes, ended := 0, 0
	b.mods[0].Handle(1, func(*Endpoint, Tag, []byte) { echoes++ })
	ep := b.connect(0, 1)
	onDone := func(*Fragment, error) { ended++ }
	return func() {
		want := echoes + 64
		for i := range 64 {
			f, err := ep.Alloc(1, 8)
			if err != nil {
				tb.Fatal(err)
			}
			f.Signal, f.OnDone = i%2 == 0, onDone
			if _, err := ep.Send(b.now, f); err != nil {
				tb.Fatal(err)
			}
		}
		for echoes != want || ended*2 != want {
			b.now = b.now.Add(5 * time.Microsecond)
			b.mods[0].Progress(b.now)
			b.mods[1].Progress(b.now)
		}
	}
}

// TestNoAllocations: the steady-state path allocates nothing per message, in either direction, for
// fast sends, queued sends, packs, chunks, copied, gathered or landed, ACKs and puts.
func TestNoAllocations(t *testing.T) {
	for _, c := range []struct {
		name string
		op   func(testing.TB) func()
	}{
		{"tiny ping-pong", func(tb testing.TB) func() { return pingPong(tb, 8) }},
		{"packet ping-pong", func(tb testing.TB) func() { return pingPong(tb, 1400) }},
		{"burst", burst},
		{"stream of chunks", func(tb testing.TB) func() { return stream(tb, 64<<10, false) }},
		{"gathered packets", func(tb testing.TB) func() {
			return streamOn(tb, mem.Config{FreeRegions: true, MTUBytes: 32 << 10}, 16<<10, false)
		}},
		{"gathered chunks", func(tb testing.TB) func() {
			return streamOn(tb, mem.Config{FreeRegions: true}, 256<<10, false)
		}},
		{"tiny put", func(tb testing.TB) func() { return stream(tb, 8, true) }},
		{"put of chunks", func(tb testing.TB) func() { return stream(tb, 64<<10, true) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			op := c.op(t)
			for range 200 {
				op()
			}
			if n := testing.AllocsPerRun(200, op); n != 0 {
				t.Errorf("%v allocations per message", n)
			}
		})
	}
}

func BenchmarkPingPong8B(b *testing.B) {
	op := pingPong(b, 8)
	b.ReportAllocs()
	for b.Loop() {
		op()
	}
}

func BenchmarkStream(b *testing.B) {
	for _, size := range []int{8, 1400, 64 << 10, 1 << 20} {
		b.Run(sizeName(size), func(b *testing.B) {
			op := stream(b, size, false)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				op()
			}
		})
	}
}

func BenchmarkPut64KiB(b *testing.B) {
	op := stream(b, 64<<10, true)
	b.SetBytes(64 << 10)
	b.ReportAllocs()
	for b.Loop() {
		op()
	}
}

func sizeName(n int) string {
	switch {
	case n >= 1<<20:
		return "1MiB"
	case n >= 1<<10:
		return "64KiB"
	case n > 8:
		return "1400B"
	}
	return "8B"
}
