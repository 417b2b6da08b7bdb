package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/btl/internal/errs"
	"gobtl/fabric/mem"
	"gobtl/frag"
)

// A peer that is there begins a message that takes all the memory, and stops, or goes on by a
// packet now and then: the messages of others wait for it for a bounded time, and it is told why it
// ends. One that stops for less than that, or that nobody waits for, keeps its place.
func TestStalledGivesMemoryBack(t *testing.T) {
	const whole, large, timeout = 8 << 20, 3 << 20, 200 * time.Millisecond
	for _, c := range []struct {
		name           string
		stops, trickle time.Duration
		wanted, ended  bool
	}{
		{name: "stops", stops: time.Hour, wanted: true, ended: true},
		{name: "trickles", stops: time.Hour, trickle: timeout / 4, wanted: true, ended: true},
		{name: "pauses", stops: timeout / 2, wanted: true},
		{name: "not wanted", stops: 5 * timeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{PeerTimeout: timeout, FragmentBytesMax: whole, ReassemblyBytesMax: whole}
			l := newLab(t, mem.Config{}, 2, cfg)
			cfg.PeerTimeout = time.Hour // it is patient
			bad := l.add(cfg, "")
			got := map[int]int{}
			if err := l.mods[0].Handle(1, func(_ *Endpoint, _ Tag, b []byte) { got[len(b)]++ }); err != nil {
				t.Fatal(err)
			}
			slow, good := l.connect(bad, 0), l.connect(1, 0)
			chunks, resumes, next := 0, Time(0), Time(0)
			l.net.SetFilter(func(from, _, pkt []byte) mem.Verdict {
				var h frag.Header
				_, err := frag.Decode(pkt, &h)
				fromGood := string(from) == string(nameOf(l.mods[1]).Data)
				if err != nil || h.Kind != frag.KindChunk || fromGood {
					return mem.Deliver
				}
				if chunks++; chunks < 300 || l.now >= resumes && resumes != 0 {
					return mem.Deliver
				}
				if resumes == 0 {
					resumes = l.now.Add(c.stops)
				}
				if c.trickle > 0 && l.now >= next {
					next = l.now.Add(c.trickle)
					return mem.Deliver
				}
				return mem.Drop
			})
			send := func(ep *Endpoint, size int) *error {
				f, err := ep.Prepare(1, make([]byte, size))
				if err != nil {
					t.Fatal(err)
				}
				ended := new(error)
				f.Signal, f.OnDone = true, func(_ *Fragment, err error) {
					if *ended = err; err == nil {
						*ended = errDone
					}
				}
				if _, err := ep.Send(l.now, f); err != nil {
					t.Fatal(err)
				}
				return ended
			}
			first := send(slow, whole)
			l.until("stopped", 100*time.Microsecond, time.Second, func() bool { return resumes != 0 })
			if c.wanted {
				second := send(good, large)
				l.until("the other's message", 200*time.Microsecond, 6*timeout, func() bool {
					return *second != nil
				})
				if !errors.Is(*second, errDone) || got[large] != 1 {
					t.Errorf("%v, %d messages", *second, got[large])
				}
			}
			l.until("the end of the slow one", 200*time.Microsecond, 20*timeout, func() bool {
				return *first != nil
			})
			var why *errs.EndedError
			if shed := errors.As(*first, &why) && why.Code == frag.ByeShed; shed != c.ended {
				t.Errorf("the slow one ends with %v", *first)
			}
			if ended := errors.Is(l.latest(0), ErrStalled); ended != c.ended {
				t.Errorf("the module says %v", l.latest(0))
			}
		})
	}
}

var errDone = errors.New("done")

// latest is the error of the latest event of module i.
func (l *lab) latest(i int) error { return l.events[i][len(l.events[i])-1].err }
