package conn

import (
	"bytes"
	"testing"
)

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

// Bytes that wait for credit hold little more memory than their number. Later Writes follow these
// bytes.
func TestUnsentBytesPacked(t *testing.T) {
	var w writeBuffer
	w.take(nil, 1) // opens a burst: the first Write is not buffered
	w.endedAt(1)
	var want []byte
	write := func(b ...byte) {
		if taken, _ := w.take(b, 2); !taken {
			t.Fatal("not buffered")
		}
		want = append(want, b...)
	}
	write(1, 2, 3)
	w.advance(1)
	w.pack()
	if w.storage != nil || cap(w.buf) > 64 {
		t.Errorf("%d bytes of memory hold 2 bytes", cap(w.buf))
	}
	write(4)
	w.pack()
	write(5, 6)
	if !bytes.Equal(w.unsent(), want[1:]) {
		t.Errorf("unsent bytes %v, want %v", w.unsent(), want[1:])
	}
	if w.advance(len(want) - 1); len(w.unsent()) > 0 || len(w.buf) > 0 {
		t.Error("sent bytes are kept")
	}
	for write(7); len(w.buf)+smallBytesMax <= bufferBytes; {
		write(make([]byte, smallBytesMax)...)
	}
	if w.pack(); w.storage == nil {
		t.Error("a full buffer is copied")
	}
}
