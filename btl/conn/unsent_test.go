package conn_test

import (
	"testing"
	"time"

	"gobtl/btl/conn"
)

// A peer that opens many Conns and grants one byte of credit on each holds little more memory than
// the bytes that wait for credit.
func TestUnsentBytesOfManyConns(t *testing.T) {
	p := overNetwork(t, conn.Config{})
	const count, bufferedMax = 200, 1 << 10 // of memory for each Conn
	buffered, conns := 0, make([]*conn.Conn, 0, count)
	for i := range uint32(count) {
		must(t, p.client.run.SendBuffered(t.Context(), p.ep, tag, message(opens, i+1, 1, "service")))
		c, err := p.listener.Accept()
		must(t, err)
		conns = append(conns, c.(*conn.Conn))
	}
	for _, c := range conns {
		_, err := c.Write([]byte("x"))
		must(t, err)
		if c.WriteInBurst([]byte("y")) {
			buffered++
		}
	}
	if buffered < count/2 {
		t.Fatalf("%d Writes are buffered", buffered)
	}
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		memory := 0
		for _, c := range conns {
			memory += c.BufferBytes()
		}
		if memory <= count*bufferedMax {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("%d bytes of memory hold %d bytes", memory, buffered)
		}
	}
	unsent := 0
	for _, c := range conns {
		unsent += c.Unsent()
	}
	if unsent != buffered {
		t.Errorf("%d bytes are unsent, want %d", unsent, buffered)
	}
}
