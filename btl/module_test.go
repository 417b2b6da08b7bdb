package btl

import (
	"bytes"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/mem"
)

var fabricHints = fabric.Hints{}

func TestEchoAndLarge(t *testing.T) {
	b := newBench(t, mem.Config{}, 2, Config{})
	var got [][]byte
	b.mods[1].Handle(7, func(ep *Endpoint, tag Tag, data []byte) {
		got = append(got, bytes.Clone(data))
	})
	ep := b.connect(0, 1)
	for _, size := range []int{0, 1, 8, 743, 744, 745, 1448, 1449, 5000, 1 << 20} {
		msg := make([]byte, size)
		for i := range msg {
			msg[i] = byte(i * 7)
		}
		got = nil
		f, err := ep.Prepare(7, msg)
		if err != nil {
			t.Fatal(err)
		}
		called := 0
		f.OnDone = func(f *Fragment, err error) {
			if called++; err != nil {
				t.Errorf("size %d: %v", size, err)
			}
		}
		st, err := ep.Send(b.now, f)
		if err != nil {
			t.Fatal(err)
		}
		b.until("delivered", 10*time.Microsecond, 10*time.Second, func() bool {
			return len(got) == 1 && (st == Done || called == 1)
		})
		if !bytes.Equal(got[0], msg) {
			t.Fatalf("size %d: delivered %d bytes, altered", size, len(got[0]))
		}
	}
	s := b.mods[0].Stats()
	t.Logf("retransmits %d, sent %d, dropped %v", s.Retransmits(), s.SegmentsSent(), b.net.Counts())
}
