package conn_test

import (
	"bytes"
	"io"
	"sync"
	"testing"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/fabric/mem"
)

// Conns that wait for send buffers take turns: when the first Conn has sent everything, each other
// Conn has sent at least half.
func TestTurns(t *testing.T) {
	const conns, writeBytes = 8, 256 << 10 // a whole window in 65 messages
	network := mem.New(mem.Config{})
	p := newPair(t, within(network), conn.Config{},
		btl.Config{FragmentsMax: 16, FragmentBytesMax: 4 << 10})
	var sent [conns]int  // packets of each Conn
	var first [conns]int // the same, when the first Conn had sent everything
	var count sync.Mutex
	network.SetFilter(func(_, _ []byte, packet []byte) mem.Verdict {
		count.Lock()
		defer count.Unlock()
		who := int(packet[len(packet)-1]) - 1
		if len(packet) < 1000 || who < 0 || who >= conns {
			return mem.Deliver
		}
		if sent[who] += len(packet); sent[who] >= writeBytes*9/10 && first == [conns]int{} {
			first = sent
		}
		return mem.Deliver
	})
	var ends [2][conns]*conn.Conn
	var all [conns][]byte
	for i := range conns {
		ends[0][i], ends[1][i] = p.dial(t)
		all[i] = bytes.Repeat([]byte{byte(i + 1)}, writeBytes)
	}
	must(t, conn.WriteAll(ends[0][:], all[:]))
	for i, c := range ends[1] {
		got := make([]byte, writeBytes)
		if n, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, all[i]) {
			t.Fatalf("Conn %d: %d bytes, %v", i, n, err)
		}
	}
	network.SetFilter(nil)
	for i, n := range first {
		if n < writeBytes/2 {
			t.Errorf("Conn %d has sent %d bytes of %d when another Conn had sent nearly all: %v", i, n,
				writeBytes, first)
		}
	}
}
