package peer

import (
	"testing"

	"gobtl/btl/internal/spare"
)

// Unused descriptors together keep a bounded amount of memory, whatever the size of the messages
// for which they were used.
func TestUnusedDescriptorsKeepLittle(t *testing.T) {
	for _, size := range []int{5 << 10, 64 << 10, 256 << 10} {
		r := newRig(t, 2, func(cfg *rigConfig) { cfg.FragmentsMax = 1024 })
		ep, st := r.connect(0, 1), r.stations[0]
		var lent []*Fragment
		for range 128 {
			f, err := st.Frags.Alloc(ep, 3, size)
			if err != nil {
				break
			}
			lent = append(lent, f)
		}
		if len(lent)*size < 256<<10 {
			t.Fatalf("%d messages", len(lent))
		}
		for _, f := range lent {
			if err := st.Frags.Free(ep, f); err != nil {
				t.Fatal(err)
			}
		}
		kept := 0
		for _, f := range st.Frags.idle {
			kept += cap(f.own)
		}
		if most := len(lent) * ownBytesMax; kept > most || ownBytesMax > 8<<10 {
			t.Errorf("%d descriptors keep %d bytes of messages of %d bytes", len(lent), kept, size)
		}
	}
}

// A steady sender of large messages, also between smaller ones, uses the same memory again.
func TestOwnMemoryAgain(t *testing.T) {
	r := newRig(t, 2, nil)
	ep, st := r.connect(0, 1), r.stations[0]
	const depth = 8
	var lent [depth]*Fragment
	send := func() {
		for i := range lent {
			size := 64 << 10
			if i%2 > 0 {
				size = 3 << 10
			}
			f, err := st.Frags.Alloc(ep, 3, size)
			if err != nil {
				t.Fatal(err)
			}
			lent[i] = f
		}
		for _, f := range lent {
			if err := st.Frags.Free(ep, f); err != nil {
				t.Fatal(err)
			}
		}
	}
	send()
	if n := testing.AllocsPerRun(100, send); n > 0 {
		t.Errorf("%d messages allocate %v times", depth, n)
	}
	if spare.BytesMax > 4<<20 {
		t.Error("more idle memory than expected")
	}
}
