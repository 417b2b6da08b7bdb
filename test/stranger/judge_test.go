package stranger

import (
	"strings"
	"testing"
)

// judged is a host in a connection whose other side is the test: what is given to it arrives there.
func judged(t *testing.T) (*host, *conn) {
	t.Helper()
	h, err := newHost(1, options{features: featSack})
	check(t, err)
	t.Cleanup(h.stop)
	var c *conn
	h.do(func() {
		h.handlers[tagKeep] = func(*conn, []byte) {}
		c, err = h.dial(5, h.own(0), h.own(1))
		x := c.hello(0)
		x.tag = 9
		c.know(&packet{kind: kHello, seq: 100, hello: x})
		c.establish()
	})
	check(t, err)
	return h, c
}

// TestJudge gives the judge what the document forbids, each thing once, between two packets that
// are as they should be.
func TestJudge(t *testing.T) {
	frag := func(seq uint32) *packet { return &packet{kind: kFrag, tag: tagKeep, seq: seq} }
	piece := func(seq, id, at uint32) *packet {
		return &packet{
			kind: kChunk, tag: tagKeep, seq: seq, chunk: &chunk{id, 400, at, 200, 200},
			payload: make([]byte, 200),
		}
	}
	ack := func(change func(p *packet)) *packet {
		p := &packet{kind: kAck, flags: fAck | fSack, credit: 1, creditBytes: 0xFFFF, sack: &sack{}}
		change(p)
		return p
	}
	for want, send := range map[string]func(c *conn, give func(ch int, p *packet)){
		"no packet": func(_ *conn, give func(int, *packet)) { give(0, &packet{kind: 15}) },
		"used twice": func(c *conn, give func(int, *packet)) {
			c.number[0] = 500
			give(0, frag(101))
			c.number[0] = 500
			give(0, frag(102))
		},
		"behind": func(c *conn, give func(int, *packet)) {
			c.number[1] = 500
			give(1, frag(101))
			c.number[1] = 300
			give(1, frag(102))
		},
		"has 733 bytes": func(_ *conn, give func(int, *packet)) {
			p := frag(101)
			p.payload = make([]byte, 701)
			give(0, p)
		},
		"on the data channel": func(c *conn, give func(int, *packet)) {
			give(1, ack(func(p *packet) { p.ack, p.sack.last = c.first-1, c.first-1 }))
		},
		"and granted was": func(_ *conn, give func(int, *packet)) { give(0, frag(100+64)) },
		"another one": func(_ *conn, give func(int, *packet)) {
			give(0, frag(101))
			p := frag(101)
			p.payload = []byte{1}
			give(1, p)
		},
		"on the command channel": func(_ *conn, give func(int, *packet)) {
			give(0, frag(101))
			give(0, frag(101))
		},
		"behind 8": func(_ *conn, give func(int, *packet)) {
			give(1, piece(101, 8, 0))
			give(1, piece(102, 8, 200))
			give(1, piece(103, 7, 0))
		},
		"within": func(_ *conn, give func(int, *packet)) {
			give(1, piece(101, 8, 0))
			give(1, piece(102, 9, 0))
		},
		"alone": func(_ *conn, give func(int, *packet)) { give(1, piece(101, 8, 200)) },
		"covers": func(c *conn, give func(int, *packet)) {
			give(0, ack(func(p *packet) { p.ack = c.next }))
		},
		"features": func(c *conn, give func(int, *packet)) {
			give(0, ack(func(p *packet) { p.ack, p.flags, p.sack = c.first-1, fAck, nil }))
		},
		"tells of": func(c *conn, give func(int, *packet)) {
			give(0, ack(func(p *packet) { p.ack, p.sack.ranges = c.first-1, [][2]uint16{{0, 0}} }))
		},
		"last": func(c *conn, give func(int, *packet)) {
			give(0, ack(func(p *packet) { p.ack, p.sack.last, p.sack.lastNumber = c.first-1, c.first-1, 9 }))
		},
		"credits in bytes": func(c *conn, give func(int, *packet)) {
			give(0, ack(func(p *packet) {
				p.ack, p.sack.last, p.creditBytes = c.first-1, c.first-1, 0
			}))
		},
		"contradicts": func(_ *conn, give func(int, *packet)) {
			give(1, piece(101, 8, 0))
			p := piece(102, 8, 200)
			p.chunk.size, p.payload = 401, make([]byte, 200)
			give(1, p)
		},
		"never sent": func(_ *conn, give func(int, *packet)) { give(0, &packet{kind: kPong, nonce: 1}) },
	} {
		h, c := judged(t)
		give := func(ch int, p *packet) { h.give(c, ch, p) }
		h.do(func() {
			give(0, frag(100))
			if len(h.wrongs) != 0 {
				t.Errorf("%s: before, %v", want, h.wrongs)
			}
			send(c, give)
			if len(h.wrongs) != 1 || !strings.Contains(h.wrongs[0], want) {
				t.Errorf("%q is not the one thing that was noticed: %q", want, h.wrongs)
			}
		})
	}
}

// give has a packet arrive from the other side.
func (h *host) give(c *conn, ch int, p *packet) {
	p.conn = c.tag
	c.number[ch]++
	p.number = uint32(c.number[ch])
	h.arrive(datagram{ch: ch, b: p.encode()})
}

// TestJudgeFromTheBeginning: packets that came before the Hello that made the connection were not
// judged, and what follows them is no reason to complain.
func TestJudgeFromTheBeginning(t *testing.T) {
	for first, want := range map[uint32]int{100: 1, 101: 0} {
		h, c := judged(t)
		h.do(func() {
			h.give(c, 1, &packet{
				kind: kChunk, tag: tagKeep, seq: first, chunk: &chunk{8, 400, 200, 200, 200},
				payload: make([]byte, 200),
			})
			if len(h.wrongs) != want {
				t.Errorf("the end of a fragment by packet %d of 100 on: %q", first, h.wrongs)
			}
		})
	}
}
