package btl

import (
	"testing"
	"time"

	"gobtl/btl/internal/meet"
	"gobtl/fabric/sim"
	"gobtl/frag"
)

// Two modules connect to each other, and one is established so early that the other drops its ACKs,
// which bring the first credits: that one asks for them as soon as it is established.
func TestReliableMissedCredits(t *testing.T) {
	const late = 3 * time.Millisecond
	for _, held := range []frag.Probe{frag.ProbeCommand, frag.ProbeData} {
		r := newRelied(t, sim.Config{}, relyConfig(), relyConfig())
		took := 0
		if err := r.mods[1].Handle(1, func(*Endpoint, Tag, []byte) { took++ }); err != nil {
			t.Fatal(err)
		}
		began := r.nw.Now()
		r.nw.SetFilter(func(d *sim.Datagram) (v sim.Verdict) {
			var h frag.Header
			var hello frag.Hello
			payload, err := frag.Decode(d.Data, &h)
			if err == nil && h.Kind == frag.KindHelloAck && d.From.Node == 1 &&
				frag.DecodeHello(payload, &hello) == nil && hello.Probe == held {
				v.Drop = r.nw.Now() < began.Add(late)
			}
			return v
		})
		var eps [2]*Endpoint
		for i, m := range r.mods {
			ep, err := m.Connect(m.Now(), r.mods[1-i].Name())
			if err != nil {
				t.Fatal(err)
			}
			eps[i] = ep
		}
		var end error
		r.send(eps[0], 1, 100, &end)
		r.run(3 * meet.HelloIntervalMin)
		if dropped := counter(r.mods[0], CntDropState); dropped == 0 || !eps[0].Connected() {
			t.Errorf("%v: %d packets came too early, state %v", held, dropped, eps[0].c.ID.State)
		}
		if end != nil || took != 1 {
			t.Errorf("%v: the first message ended with %v, %d came", held, end, took)
		}
		if asked := counter(r.mods[0], CntAsked); asked > 3 {
			t.Errorf("%v: asked %d times", held, asked)
		}
	}
}
