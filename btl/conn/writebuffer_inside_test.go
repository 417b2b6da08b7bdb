package conn

import "testing"

// A Write is taken over if it is small and comes soon after the one before, nothing old waits, and
// no Write that waits for the module has to be before it.
func TestBufferRules(t *testing.T) {
	const begin = 1_000_000
	small, large := make([]byte, 8), make([]byte, smallBytesMax+1)
	after := func(do func(w *writeBuffer)) *writeBuffer {
		w := &writeBuffer{}
		if taken, _ := w.take(small, begin); taken {
			t.Fatal("the first Write is taken over")
		}
		w.endedAt(begin)
		if taken, first := w.take(small, begin+1); !taken || !first {
			t.Fatal("the second one is not")
		}
		if do != nil {
			do(w)
		}
		return w
	}
	full := func(w *writeBuffer) {
		for len(w.buf)+smallBytesMax <= bufferBytes {
			if taken, first := w.take(large[1:], begin+2); !taken || first {
				t.Fatal("there is room")
			}
		}
	}
	old := func(w *writeBuffer) {
		for now := int64(begin); now <= begin+bufferAgeNs; now += burstGapNs / 2 {
			w.take(small[:1], now)
		}
	}
	for name, c := range map[string]struct {
		do   func(*writeBuffer)
		b    []byte
		at   int64
		want bool
	}{
		"one more":  {nil, small, begin + burstGapNs, true},
		"later":     {nil, small, begin + burstGapNs + 2, false},
		"large":     {nil, large, begin + 2, false},
		"empty":     {nil, nil, begin + 2, false},
		"full":      {full, large[1:], begin + 3, false},
		"old bytes": {old, small, begin + bufferAgeNs + 2, false},
		"sent":      {func(w *writeBuffer) { w.advance(8) }, small, begin + 2, true},
		"behind":    {func(w *writeBuffer) { w.take(large, begin+2) }, small, begin + 3, false},
		"shut":      {func(w *writeBuffer) { w.setShut(true, false) }, small, begin + 2, false},
		"direct":    {func(w *writeBuffer) { w.direct = true }, small, begin + 2, false},
	} {
		w := after(c.do)
		if taken, _ := w.take(c.b, c.at); taken != c.want {
			t.Errorf("%s: taken over is %v", name, taken)
		}
	}
	w := after(func(w *writeBuffer) { w.setShut(true, true) })
	if len(w.unsent()) > 0 || w.storage != nil {
		t.Error("what nobody wants is kept")
	}
}
