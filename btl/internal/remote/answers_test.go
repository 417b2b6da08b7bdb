package remote

import (
	"fmt"
	"testing"

	"gobtl/frag"
)

// owe accepts gets of a peer until one is refused, at most "most", and returns their answers.
func owe(b *two, p *peer, most int) (owed []*operation) {
	g := frag.Get{Handle: uint64(b.Handle()), Answer: 77, SizeBytes: 1}
	body := make([]byte, frag.GetBytes)
	g.Marshal(body)
	for len(owed) < most {
		from, reason := b.service.ReachGet(p, body, usual, &g)
		if reason != 0 {
			break
		}
		owed = append(owed, b.service.AnswerGet(p, nil, 1, from))
	}
	return owed
}

// The unsent answers to all peers of a host are bounded, and leave room for those to other hosts.
// Each peer may have a few.
func TestAnswersOfOneHost(t *testing.T) {
	const peers = 1024
	b := newTwo(t, Read)
	crowd, owed, total := make([]*peer, peers), make([][]*operation, peers), 0
	for i := range crowd {
		crowd[i] = b.service.NewPeer("crowd")
		owed[i] = owe(b, crowd[i], 2*AsksMax)
		total += len(owed[i])
		if len(owed[i]) < answersFree || i == 0 && len(owed[i]) != AsksMax {
			t.Fatalf("peer %d of a host is owed %d answers", i, len(owed[i]))
		}
	}
	if total < answersMax || total > answersMax+peers*(answersFree+1) {
		t.Errorf("%d peers of a host are owed %d answers", peers, total)
	}
	for i := range 4 {
		p := b.service.NewPeer(fmt.Sprint("host ", i))
		if n := len(owe(b, p, 2*AsksMax)); n != AsksMax {
			t.Errorf("a peer of another host is owed %d answers", n)
		}
	}
	for i, p := range crowd {
		p.Ended() // its unsent answers still count
		for _, o := range owed[i] {
			b.service.EndAnswer(p, o)
		}
	}
	if n := b.service.answers.Counted(); n != 4*AsksMax {
		t.Errorf("after the end of the crowd %d answers count", n)
	}
	if p := b.service.NewPeer("crowd"); len(owe(b, p, 2*AsksMax)) != AsksMax {
		t.Error("after the end of the crowd a peer of its host is owed few answers")
	}
}

// The end of one of many answers that read a region takes no longer than the end of the only one.
func TestReadersPlaces(t *testing.T) {
	b := newTwo(t, Read)
	var all []*operation
	for range AsksMax {
		all = append(all, b.service.AnswerGet(b.peer, nil, 1, &b.region))
	}
	for i, o := range all {
		if b.readers[o.reader] != o {
			t.Fatalf("answer %d is reader %d, which is another", i, o.reader)
		}
	}
	for i := range all { // in another order than that of their beginning
		b.service.EndAnswer(b.peer, all[i*101%len(all)])
		b.check()
	}
	if b.Reader() != nil || b.peer.Owed() != 0 {
		t.Errorf("%d are owed, the region is read: %v", b.peer.Owed(), b.Reader() != nil)
	}
}
