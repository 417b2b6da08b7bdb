package btl

import (
	"slices"
	"testing"
	"time"

	"gobtl/frag"
	"gobtl/internal/seq"
)

// refuser is a peer that requests small answers, and refuses all chunks of a large message.
type refuser struct {
	*script
	ep     *Endpoint
	chunks []seq.Num // the chunks of the message
}

// newRefuser connects a peer to a module that answers each request by three messages, and sends the
// peer a message. The peer allows few bytes in flight, and refuses all chunks for lack of memory.
func newRefuser(t *testing.T, allowed uint16) *refuser {
	t.Helper()
	_, s := newStranger(t, smallConfig())
	s.hello.Features |= frag.FeatureSack
	r := &refuser{script: s, ep: s.connect()}
	if err := s.m.Handle(2, func(ep *Endpoint, tag Tag, data []byte) {
		for range 3 {
			_ = ep.SendImmediate(ep.Now(), tag, data) // returns ErrAgain while the window is closed
		}
	}); err != nil {
		t.Fatal(err)
	}
	r.request()
	r.ack(slices.Max(numbersOf(s.run(4)))) // a Pack was sent: the next answers share one as well
	sendOrFail(t, r.ep, 1, make([]byte, 32_000))
	if r.chunks = numbersOf(kinds(s.run(20), frag.KindChunk)); len(r.chunks) < 10 {
		t.Fatalf("%d chunks were sent", len(r.chunks))
	}
	r.allow(r.chunks[0]-1, allowed)
	for _, n := range r.chunks {
		s.raw(0, encode(frag.Header{
			Kind: frag.KindNack, Conn: s.conn, Seq: n, Tag: frag.NackMemory,
		}, nil))
	}
	s.run(2)
	if !r.ep.c.Snd.NeedsMemory() || !r.ep.c.Snd.Open() {
		t.Fatalf("memory is lacking: %t, the window is open: %t", r.ep.c.Snd.NeedsMemory(),
			r.ep.c.Snd.Open())
	}
	return r
}

func numbersOf(pkts []sentPacket) (all []seq.Num) {
	for _, p := range pkts {
		if p.hdr.Kind.HasSeq() {
			all = append(all, p.hdr.Seq)
		}
	}
	return all
}

// request sends a message that the module answers.
func (r *refuser) request() {
	r.frag(r.next, 2, []byte("answer me"))
	r.next++
}

// allow acknowledges the module's packets up to n, and limits the bytes in flight.
func (r *refuser) allow(n seq.Num, units uint16) {
	b := encode(frag.Header{
		Kind: frag.KindAck, Flags: frag.FlagAck, Conn: r.conn, Ack: n, Credit: r.credit, CreditBytes: 1,
	}, nil)
	frag.SetAck(b, n, r.credit, units, false)
	r.raw(0, b)
}

// wantAnswer steps once, and checks that the module has sent an answer although its window is
// closed.
func (r *refuser) wantAnswer(t *testing.T, step time.Duration) {
	t.Helper()
	r.take()
	r.l.step(step)
	if r.ep.c.Snd.Open() || r.ep.Err() != nil {
		t.Errorf("the window is open: %t, the endpoint has ended: %v", r.ep.c.Snd.Open(), r.ep.Err())
	}
	sent := r.take()
	if len(kinds(sent, frag.KindPack))+len(kinds(sent, frag.KindFrag)) == 0 {
		t.Errorf("%d packets were sent, and no answer", len(sent))
	}
}

// All chunks of a refused message count as bytes in flight again when the peer accepts one of them.
// An answer that shares its packet was given to SendImmediate before, while the window was open.
// The module sends this answer.
func TestPackBesideAcceptedChunk(t *testing.T) {
	r := newRefuser(t, 1)
	for again := 0; again == 0; again = len(kinds(r.run(1), frag.KindChunk)) {
	}
	r.request() // its handler is called by the next step, and the rest arrives in the step after it
	r.request()
	r.allow(r.chunks[0], 1)
	r.l.step(time.Microsecond)
	r.wantAnswer(t, time.Microsecond)
}

// A refused chunk counts as bytes in flight again when it is sent again. An answer that shares its
// packet was given to SendImmediate in the same step, while the window was open. The module sends
// this answer.
func TestPackBesideChunkSentAgain(t *testing.T) {
	r := newRefuser(t, 0)
	r.frag(r.next, frag.TagVoid, nil) // a step whose first packet is a request handles nothing else
	r.next++
	r.request()
	r.wantAnswer(t, 100*time.Millisecond)
}
