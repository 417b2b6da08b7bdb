package conn_test

import (
	"io"
	"testing"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/fabric/mem"
)

// A peer that sends one byte at the end of the window of each of many Conns gets little memory for
// it. The bytes are read when the bytes before them have come.
func TestFarByte(t *testing.T) {
	const window, conns, most = 256 << 10, 1000, 256 // bytes of memory for each byte
	p := newPair(t, within(mem.New(mem.Config{})),
		conn.Config{WindowBytes: window, Backlog: conns}, btl.Config{})
	var last *conn.Conn
	for id := range uint32(conns) {
		for _, m := range [][]byte{
			message(opens, id, window, "service"), message(data, id, window-1, "x"),
		} {
			must(t, p.client.run.SendBuffered(t.Context(), p.ep, tag, m))
		}
		c, err := p.listener.Accept()
		must(t, err)
		last = c.(*conn.Conn)
	}
	must(t, p.client.run.Flush(t.Context(), p.ep))
	checkTotal(t, p.server, conns*most)
	if held, _ := p.server.Total(); held < conns {
		t.Errorf("%d bytes are held of %d that have come", held, conns)
	}
	for at := 0; at < window-1; {
		n := min(window-1-at, 60_000)
		m := message(data, conns-1, uint64(at), string(make([]byte, n)))
		must(t, p.client.run.Send(t.Context(), p.ep, tag, m))
		at += n
	}
	b := make([]byte, window)
	_, err := io.ReadFull(last, b)
	must(t, err)
	if b[window-1] != 'x' || b[window-2] != 0 {
		t.Error("other bytes were read than were sent")
	}
	checkTotal(t, p.server, conns*most+window)
}
