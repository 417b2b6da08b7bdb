package btl

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gobtl/fabric/sim"
	"gobtl/frag"
)

// A reliable peer that sends more than it has credits for is not listened to any longer: what it is
// to be told of refused packets would have no bound. Questions need no credits.
func TestReliableBeyondCredits(t *testing.T) {
	deep := relyConfig()
	deep.RecvDepth = 512 // so that a pass takes in more than it has given credits for
	r := newRelied(t, sim.Config{}, relyConfig(), deep)
	if err := r.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {}); err != nil {
		t.Fatal(err)
	}
	var end error
	r.mods[1].OnEndpoint(func(_ *Endpoint, _ Event, err error) { end = err })
	ep := r.connect(0, 1)
	there := endpointOf(r.mods[1].all.Peers.At(0))
	credits := ep.c.Snd.Room()
	for range credits + 10 {
		r.mods[0].all.Writer.SendQuestion(&ep.c)
	}
	if ep.c.Snd.Open() {
		t.Fatal("not as it should be: there are credits left")
	}
	if r.run(time.Second); end != nil || there.c.Rcv.Next() != ep.c.SentUntil() {
		t.Fatalf("questions without credits: %v", end)
	}
	oldest, _ := ep.c.Snd.Window()
	ep.c.Snd.Confirm(ep.Now(), oldest-1, 1000) // which nobody has given
	r.nodes[1].Pause(time.Millisecond)
	for range r.mods[1].all.Credits.Granted() + 1 {
		if err := ep.SendImmediate(ep.Now(), 1, make([]byte, 990)); err != nil {
			t.Fatal(err)
		}
	}
	if r.run(time.Second); !errors.Is(end, ErrLost) || !strings.Contains(end.Error(), "credit") {
		t.Errorf("beyond the credits: ended with %v", end)
	}
}

// A repeated Nack says nothing new.
func TestReliableRepeatedNack(t *testing.T) {
	r := newRelied(t, sim.Config{}, relyConfig(), relyConfig())
	ep := r.connect(0, 1)
	r.run(time.Second)
	if err := ep.SendImmediate(ep.Now(), 9, nil); err != nil {
		t.Fatal(err)
	}
	oldest, next := ep.c.Snd.Window()
	if next != oldest+1 {
		t.Fatalf("packets from %d to %d are in flight", oldest, next)
	}
	for range 3 {
		r.mods[0].all.Sent.OnNackCounted(&ep.c, &frag.Header{
			Kind: frag.KindNack, Seq: oldest, Tag: frag.NackNoHandler,
		}, nil)
	}
	if messages, err := ep.c.Flushes.Refusals(); messages != 1 || !errors.Is(err, ErrNoHandler) {
		t.Errorf("%d messages are refused: %v", messages, err)
	}
}
