package btl

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/seq"
)

// sentRuns has a module send a message of size bytes to a script, which acknowledges it, and
// returns the chunks, as they came in each pass.
func sentRuns(t *testing.T, s *script, ep *Endpoint,
	send func() (*Fragment, error),
) [][]sentPacket {
	t.Helper()
	s.frag(s.next, 1, []byte("what the first chunk may acknowledge"))
	f, err := send()
	if err != nil {
		t.Fatal(err)
	}
	ended := 0
	f.Signal, f.OnDone = true, func(_ *Fragment, err error) {
		if ended++; err != nil {
			t.Error(err)
		}
	}
	if _, err := ep.Send(ep.Now(), f); err != nil {
		t.Fatal(err)
	}
	var passes [][]sentPacket
	for i := 0; i < 100 && ended == 0; i++ {
		if chunks := kinds(s.run(1), frag.KindChunk); len(chunks) > 0 {
			passes = append(passes, chunks)
			s.ack(chunks[len(chunks)-1].hdr.Seq)
		}
	}
	if ended != 1 {
		t.Fatalf("ended %d times", ended)
	}
	return passes
}

// TestSentRuns: the chunks of a message, plain and of puts, copied and gathered, are what Encode
// makes of their headers: consecutive numbers and offsets, each once, and an ACK on the first only
// of those that leave together.
func TestSentRuns(t *testing.T) {
	for _, gather := range []bool{false, true} {
		for _, put := range []bool{false, true} {
			for _, c := range []struct{ chunks, rest int }{
				{1, 50}, {2, 0}, {2, 1}, {20, 0}, {20, 5}, {90, 9},
			} {
				name := fmt.Sprintf("gather %v, put %v, %d chunks and %d bytes", gather, put, c.chunks,
					c.rest)
				t.Run(name, func(t *testing.T) { sentRun(t, gather, put, c.chunks, c.rest) })
			}
		}
	}
}

func sentRun(t *testing.T, gather, put bool, chunks, rest int) {
	const handle, place = 77, 1<<40 + 3
	s := newLab(t, mem.Config{FreeRegions: gather}, 1, smallConfig()).newScript(0)
	s.m.Handle(1, func(*Endpoint, Tag, []byte) {})
	ep := s.connect()
	s.run(20)
	want := frag.Header{Kind: frag.KindChunk, Conn: s.tag, Tag: 1}
	if put {
		want.Flags, want.Tag, want.Handle = frag.FlagPut, 0, handle
	}
	room := ep.MTUBytes() - frag.HeaderBytes(frag.KindChunk, want.Flags)
	data := make([]byte, chunks*room+rest)
	for i := range data {
		data[i] = byte(i)*3 + byte(i/room)
	}
	want.SizeBytes = uint32(len(data))
	_, first := ep.c.Snd.Window()
	passes := sentRuns(t, s, ep, func() (*Fragment, error) {
		if put {
			return ep.PreparePut(data, handle, place)
		}
		return ep.Prepare(1, data)
	})
	want.FragID = passes[0][0].hdr.FragID
	at, longest, acked := 0, 0, 0
	for _, pass := range passes {
		longest = max(longest, len(pass))
		for i, p := range pass {
			payload := data[at*room : min((at+1)*room, len(data))]
			want.Seq, want.OffsetBytes = first+seq.Num(at), uint32(at*room)
			if put {
				want.PutOffset = place + uint64(at*room)
			}
			if want.Number = p.hdr.Number; i > 0 && want.Number != pass[i-1].hdr.Number+1 {
				t.Fatalf("chunk %d, %d-th of a pass: packet %d after %d", at, i, want.Number,
					pass[i-1].hdr.Number)
			}
			pkt := encode(want, payload)
			if p.hdr.Flags&frag.FlagAck != 0 && i == 0 {
				frag.SetAck(pkt, p.hdr.Ack, p.hdr.Credit, p.hdr.CreditBytes, p.hdr.Flags&frag.FlagDup != 0)
				acked++
			}
			if at++; p.channel != 1 || !bytes.Equal(p.bytes, pkt) {
				t.Fatalf("chunk %d, %d-th of a pass:\n%x, want\n%x", at-1, i, p.bytes, pkt)
			}
		}
	}
	all := chunks + (rest+room-1)/room
	if at != all || counter(s.m, CntSentChunk) != uint64(all) || s.m.counted().Retransmits() != 0 {
		t.Errorf("%d chunks came of %d, %d sent, %d again", at, all, counter(s.m, CntSentChunk),
			s.m.counted().Retransmits())
	}
	if acked == 0 || longest < min(all, 8) {
		t.Errorf("%d chunks with an ACK, at most %d in a pass", acked, longest)
	}
	if n := s.l.spies[0].gathered; n != 0 && !gather || n != all && gather && chunks >= 20 {
		t.Errorf("%d of %d sends were gathered", n, all)
	}
	s.l.step(time.Millisecond)
	if n := len(kinds(s.take(), frag.KindChunk)); n != 0 || flying(ep) != 0 {
		t.Errorf("%d more chunks, %d in flight", n, flying(ep))
	}
}
