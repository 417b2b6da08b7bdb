//go:build linux

package btl

import (
	"bytes"
	"sync"
	"testing"

	"gobtl/btl/internal/keep"
)

// What is kept of packets may be read while the module closes and afterwards, and be released then
// by any goroutine. The memory is mapped: who reads what is gone ends the process.
func TestKeepOutlivesClose(t *testing.T) {
	p := newShmPair(t)
	const records = 6
	kept := make([]*Kept, 0, records)
	if err := p.y.Handle(2, func(_ *Endpoint, _ Tag, data []byte) {
		k := new(Kept)
		if err := p.y.Keep(k, data); err != nil || k.in.Place() != keep.Packet {
			t.Errorf("kept in %v: %v", k.in.Place(), err)
		}
		kept = append(kept, k)
	}); err != nil {
		t.Fatal(err)
	}
	if err := p.y.HandlePulled(4); err != nil {
		t.Fatal(err)
	}
	for i := range records {
		sendOrFail(t, p.ep, 2, bytes.Repeat([]byte{byte('a' + i)}, 100))
	}
	sendOrFail(t, p.ep, 4, []byte("pulled late"))
	for n := 0; (len(kept) < records || p.y.rx.Arrivals.Len() == 0) && n < 100_000; n++ {
		p.pass(t, p.x)
		p.pass(t, p.y)
	}
	if len(kept) != records {
		t.Fatalf("%d of %d came", len(kept), records)
	}
	var reading, all sync.WaitGroup
	closed := make(chan struct{})
	for i, k := range kept {
		reading.Add(1)
		all.Go(func() {
			for n := 0; ; n++ {
				if b := k.Bytes(); len(b) != 100 || b[0] != byte('a'+i) || b[99] != b[0] {
					t.Errorf("message %d is %q", i, b)
				}
				if n == 0 {
					reading.Done()
				}
				select {
				case <-closed:
					if n > 1000 {
						k.Release()
						return
					}
				default:
				}
			}
		})
	}
	reading.Wait()
	if err := p.y.Close(); err != nil {
		t.Error(err)
	}
	close(closed)
	all.Wait()
	var buf [2]Arrival
	if n := p.y.PullArrivals(buf[:]); n != 1 || string(buf[0].Bytes()) != "pulled late" ||
		buf[0].in.Place() != keep.Copy {
		t.Errorf("%d arrivals after Close, %q in %d", n, buf[0].Bytes(), buf[0].in.Place())
	}
}
