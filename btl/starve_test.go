package btl

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// crowdLab is modules that are all connected to each other, with a region each, and what they want
// to send: it is tried in each pass until there is room.
type crowdLab struct {
	*lab
	eps     [][]*Endpoint // by module and peer; nil to itself
	regions []*Region
	due     []func() (*Fragment, error)
	ended   int
	refused int
}

func newCrowdLab(t *testing.T, count, regionBytes int, cfg Config) *crowdLab {
	t.Helper()
	l := &crowdLab{lab: newLab(t, mem.Config{}, count, cfg)}
	for i, m := range l.mods {
		r, err := m.Expose(filled(regionBytes, byte(i)), RemoteAll)
		if err != nil {
			t.Fatal(err)
		}
		l.regions = append(l.regions, r)
		l.eps = append(l.eps, make([]*Endpoint, count))
	}
	for i := range count {
		for j := range i {
			l.eps[i][j] = l.connect(i, j)
			l.eps[j][i] = l.accepted(j)
		}
	}
	return l
}

// want has something sent as soon as there is room.
func (l *crowdLab) want(f func() (*Fragment, error)) { l.due = append(l.due, f) }

// all runs until everything has ended that somebody wants, count operations in all.
func (l *crowdLab) all(count int) {
	l.tb.Helper()
	l.until("all have ended", 50*time.Microsecond, time.Minute, func() bool {
		left := l.due[:0:0]
		for _, prepare := range l.due {
			f, err := prepare()
			if errors.Is(err, ErrAgain) {
				l.refused++
				left = append(left, prepare)
				continue
			} else if err != nil {
				l.tb.Fatal(err)
			}
			f.Signal, f.OnDone = true, func(_ *Fragment, err error) {
				if l.ended++; err != nil {
					l.tb.Error(err)
				}
			}
			if _, err := f.Endpoint().Send(l.now, f); err != nil {
				l.tb.Fatal(err)
			}
		}
		l.due = left
		return l.ended == count
	})
	l.settle(time.Second)
	if l.ended != count {
		l.tb.Errorf("%d operations have ended, want %d", l.ended, count)
	}
	for i := range l.mods {
		l.wantIdle(i)
	}
}

// Eight modules with few send buffers and descriptors all read from each other at the same time,
// many times: all is read.
func TestAllGetFromAll(t *testing.T) {
	const count, each, size = 8, 12, 9000
	l := newCrowdLab(t, count, size, smallConfig())
	var into [count][count][each][]byte
	for n := range each {
		for i := range count {
			for j := range count {
				if i == j {
					continue
				}
				b := make([]byte, size)
				into[i][j][n] = b
				l.want(func() (*Fragment, error) {
					return l.eps[i][j].PrepareGet(b, l.regions[j].Handle(), 0)
				})
			}
		}
	}
	l.all(count * (count - 1) * each)
	if l.refused == 0 {
		t.Error("nobody had to wait for room")
	}
	for i := range into {
		for j := range into[i] {
			for _, b := range into[i][j] {
				if b != nil && !bytes.Equal(b, l.regions[j].Bytes()) {
					t.Fatalf("module %d has read something else from %d", i, j)
				}
			}
		}
	}
}

// Handlers that answer each notice with ten puts, on both sides, of a connection that has room for
// few: all ends, and what is announced last stands there.
func TestTenPutsForOne(t *testing.T) {
	const rounds, tenfold = 40, 10
	for _, size := range []int{8, 3000} {
		l := newCrowdLab(t, 2, (1+tenfold)*size, smallConfig())
		for i := range 2 {
			back, there := l.eps[i][1-i], l.regions[1-i].Handle()
			if err := l.mods[i].Handle(noticeTag, func(*Endpoint, Tag, []byte) {
				for n := range tenfold {
					l.want(func() (*Fragment, error) {
						return back.PreparePut(filled(size, byte(n)), there, uint64((1+n)*size))
					})
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		for range rounds {
			for i := range 2 {
				l.want(func() (*Fragment, error) {
					return l.eps[i][1-i].PreparePutNotice(filled(size, 99), l.regions[1-i].Handle(), 0,
						noticeTag, nil)
				})
			}
		}
		l.all(2 * rounds * (1 + tenfold))
		if l.refused == 0 {
			t.Error("nobody had to wait for room")
		}
		for i := range 2 {
			for n := range tenfold {
				if !bytes.Equal(l.regions[i].Bytes()[(1+n)*size:][:size], filled(size, byte(n))) {
					t.Errorf("%d bytes: put %d is not in place", size, n)
				}
			}
		}
	}
}

// When all regions are exposed the next one is refused with ErrAgain, gets go on, and a place that
// is free again is given again.
func TestRegionsExhausted(t *testing.T) {
	cfg := smallConfig()
	cfg.RegionsMax = 4
	l := newCrowdLab(t, 2, 5000, cfg)
	var more []*Region
	for range cfg.RegionsMax - 1 {
		r, err := l.mods[0].Expose(make([]byte, 8), RemoteAll)
		if err != nil {
			t.Fatal(err)
		}
		more = append(more, r)
	}
	if _, err := l.mods[0].Expose(make([]byte, 8), RemoteAll); !errors.Is(err, ErrAgain) {
		t.Fatalf("one region too many: %v", err)
	}
	into := make([]byte, 5000)
	l.want(func() (*Fragment, error) {
		return l.eps[0][1].PrepareGet(into, l.regions[1].Handle(), 0)
	})
	l.all(1)
	if !bytes.Equal(into, l.regions[1].Bytes()) {
		t.Error("a get has brought something else")
	}
	more[0].Close()
	if err := l.mods[0].ExposeAs(more[0], make([]byte, 8), RemoteAll, nil); err != nil {
		t.Errorf("after a Close: %v", err)
	}
}
