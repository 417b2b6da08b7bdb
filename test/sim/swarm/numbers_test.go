package swarm

import (
	"encoding/binary"
	"testing"
	"time"

	"gobtl/fabric/sim"
	"gobtl/frag"
	"gobtl/internal/mono"
)

// The judge of numbers and Pongs takes what a module may send, and nothing else.
func TestNumbersJudge(t *testing.T) {
	const asked, asker, other = 7, 8, 9 // tags
	var c numbers
	at := mono.Time(0)
	event := func(kind frag.Kind, conn uint64, number uint32, nonce uint64, size int) *sim.Event {
		b := make([]byte, max(size, frag.PingBytesMin))
		frag.EncodePing(b, &frag.Header{Kind: kind, Conn: conn, Number: number}, nonce, len(b))
		return &sim.Event{
			At: at, From: sim.Port{Node: 1, Index: 1}, To: sim.Port{Node: 1, Index: 1}, Data: b[:size],
		}
	}
	peerOf := func(tag uint64) (uint64, bool) { return asker, tag == asked }
	sent := func(what string, want bool, kind frag.Kind, conn uint64, number uint32, nonce uint64,
		size int,
	) {
		t.Helper()
		if err := c.sent(event(kind, conn, number, nonce, size), peerOf); (err == nil) != want {
			t.Errorf("%s: %v, want it taken: %v", what, err, want)
		}
	}
	ping := func(conn, nonce uint64, size int) {
		c.delivered(event(frag.KindPing, conn, 1, nonce, size))
	}
	const least = frag.PingBytesMin
	sent("the first", true, frag.KindPing, asker, 1, 0, least)
	sent("the next", true, frag.KindPing, asker, 2, 0, least)
	sent("a number again", false, frag.KindPing, asker, 1, 0, least)
	sent("no number", false, frag.KindPing, asker, 0, 0, least)
	sent("a number far away", false, frag.KindPing, asker, numbersFar, 0, least)
	sent("another connection", true, frag.KindPing, other, 1, 0, least)
	sent("without a connection", false, frag.KindPing, 0, 1, 0, least)

	hello := func(what string, want bool, end uint64, number uint32) {
		t.Helper()
		e := event(frag.KindHelloAck, other, number, 0, frag.HelloBytesMin)
		binary.LittleEndian.PutUint64(e.Data[frag.FragHeaderBytes+8:], end)
		if err := c.sent(e, peerOf); (err == nil) != want {
			t.Errorf("%s: %v, want it taken: %v", what, err, want)
		}
	}
	hello("the first end's Hello", true, 20, 2)
	hello("its number again", false, 20, 2)
	sent("the only end's number again", false, frag.KindPing, other, 1, 0, least)
	hello("a later end's Hello", true, 21, 1)
	sent("the later end's first", true, frag.KindPing, other, 1, 0, least)
	sent("more often than there are ends", false, frag.KindPing, other, 1, 0, least)

	sent("a Pong unasked", false, frag.KindPong, asker, 3, 55, least)
	ping(asked, 55, least)
	sent("of another nonce", false, frag.KindPong, asker, 4, 56, least)
	sent("to another", false, frag.KindPong, other, 5, 55, least)
	sent("larger", false, frag.KindPong, asker, 6, 55, least+1)
	sent("shorter than any", false, frag.KindPong, asker, 7, 55, least-1)
	sent("an answer", true, frag.KindPong, asker, 8, 55, least)
	sent("a second answer", false, frag.KindPong, asker, 9, 55, least)

	at = at.Add(time.Second)
	for i := range uint32(pongsAtMost + 1) {
		ping(asked, 60, 1000)
		sent("one of many", i < pongsAtMost, frag.KindPong, asker, 10+i, 60, least)
	}
	at = at.Add(pongsEvery)
	ping(asked, 60, 1000)
	sent("later", true, frag.KindPong, asker, 500, 60, least)
}
