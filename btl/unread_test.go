package btl

import (
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// partly is a domain whose endpoints may leave something when a poll reports little.
type partly struct{ fabric.Domain }

func (d partly) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	ep, err := d.Domain.OpenEndpoint(cfg)
	return pollsPart{ep}, err
}

type pollsPart struct{ fabric.Endpoint }

func (e pollsPart) Caps() fabric.Caps {
	c := e.Endpoint.Caps()
	c.PollsAll, c.Landing = false, false
	return c
}

func (e pollsPart) Poll(out []fabric.Completion) (int, error) {
	return e.Endpoint.Poll(out[:min(len(out), 2)])
}

// What waits behind others has been unread since nothing was left to read, not since the latest
// pass: else a receiver that is behind looks like a queue on the way.
func TestUnreadSinceNothingWasLeft(t *testing.T) {
	const step, count, batch = 100 * time.Microsecond, 40, 4
	for name, wrap := range map[string]func(fabric.Domain) fabric.Domain{
		"all":  nil,
		"part": func(d fabric.Domain) fabric.Domain { return partly{d} },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, mem.Config{}, 0, Config{})
			b.wrap = wrap
			cfg := Config{Profile: "adaptive"}
			cfg.limits.PollBatch, cfg.limits.IdlePollEvery = batch, 1
			b.mods = append(b.mods, b.open(cfg), b.open(cfg))
			got := 0
			if err := b.mods[1].Handle(1, func(*Endpoint, Tag, []byte) { got++ }); err != nil {
				t.Fatal(err)
			}
			ep := b.connect(0, 1)
			there := endpointOf(b.mods[1].all.Peers.At(0))
			send := func(n int) {
				for range n {
					f, err := ep.Alloc(1, 1000)
					if err == nil {
						_, err = ep.Send(b.now, f)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				b.until("delivered", step, time.Second, func() bool { return got == n })
				got = 0
			}
			for range 20 {
				b.step(step)
			}
			send(1)
			if _, _, unread, _ := there.c.Rcv.Latest(b.now); unread > step {
				t.Errorf("a lone packet was unread for %v, with passes every %v", unread, step)
			}
			for range 20 {
				b.step(step)
			}
			send(count)
			passes := count/batch - 1
			if _, _, unread, _ := there.c.Rcv.Latest(b.now); unread < time.Duration(passes)*step {
				t.Errorf("the last of %d packets was unread for %v, %d passes of %v", count, unread, passes,
					step)
			}
		})
	}
}
