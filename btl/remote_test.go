package btl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/remote"
	"gobtl/fabric/mem"
)

// remoteLab is two modules, on a network that loses, repeats and holds back packets if it is told
// to, and what the second one exposes.
type remoteLab struct {
	*lab
	ep, back *Endpoint
	mem      []byte
	region   *Region
	notices  []string
}

const noticeTag = 9

func newRemoteLab(t *testing.T, net mem.Config, cfg Config, rough bool) *remoteLab {
	t.Helper()
	if rough {
		cfg.PeerTimeout = time.Minute // of five packets two are lost or held
	}
	l := &remoteLab{lab: newLab(t, net, 2, cfg)}
	l.ep, l.back = l.pair()
	l.mem = make([]byte, 100_000)
	var err error
	if l.region, err = l.mods[1].Expose(l.mem, RemoteAll); err != nil {
		t.Fatal(err)
	}
	handle := func(_ *Endpoint, _ Tag, data []byte) { l.notices = append(l.notices, string(data)) }
	if err := l.mods[1].Handle(noticeTag, handle); err != nil {
		t.Fatal(err)
	}
	if rough {
		l.net.SetFilter(func(_, _, _ []byte) mem.Verdict {
			switch l.rng.IntN(12) {
			case 0, 1:
				return mem.Drop
			case 2:
				return mem.Duplicate
			case 3:
				return mem.Hold
			}
			return mem.Deliver
		})
	}
	return l
}

// do sends an operation and returns how it ended, and what it found.
func (l *remoteLab) do(f *Fragment, err error) (uint64, error) {
	l.tb.Helper()
	var value uint64
	told := errPending
	if err != nil {
		return 0, err
	}
	f.Signal, f.OnDone = true, func(f *Fragment, err error) { value, told = f.Value(), err }
	if st, err := f.Endpoint().Send(l.now, f); err != nil || st != Queued {
		l.tb.Fatalf("Send: %v, %v", st, err)
	}
	l.until("the operation ends", 100*time.Microsecond, 20*time.Second, func() bool {
		return !errors.Is(told, errPending)
	})
	return value, told
}

// rest lets some time go by, after which nothing of an operation is under way.
func (l *remoteLab) rest() {
	l.tb.Helper()
	for range 80 {
		l.step(100 * time.Microsecond)
	}
}

// weathers are what an operation must survive.
func weathers(t *testing.T, run func(t *testing.T, l *remoteLab)) {
	for _, w := range []struct {
		name  string
		rough bool
		cfg   Config
	}{
		{"fair", false, smallConfig()},
		{"rough", true, smallConfig()},
		{"rough, usnic", true, Config{
			Profile: "usnic", SendBuffers: 64, RecvDepth: 64, FragmentsMax: 64, PeersMax: 16,
		}},
	} {
		t.Run(w.name, func(t *testing.T) {
			run(t, newRemoteLab(t, mem.Config{MTUBytes: 1500}, w.cfg, w.rough))
		})
	}
}

func filled(size int, seed byte) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = seed + byte(i*7) + byte(i>>8)
	}
	return b
}

// The notice of a put comes once, when all its bytes are there, whatever its size.
func TestPutNotice(t *testing.T) {
	weathers(t, func(t *testing.T, l *remoteLab) {
		for i, size := range []int{0, 1, 8, 600, 1300, 1399, 1400, 1500, 20_000, 100_000} {
			data := filled(size, byte(i))
			says := fmt.Sprintf("put %d", i)
			l.notices = nil
			early := false
			_ = l.mods[1].Handle(noticeTag, func(_ *Endpoint, _ Tag, b []byte) {
				early = early || !bytes.Equal(l.mem[:size], data)
				l.notices = append(l.notices, string(b))
			})
			if _, err := l.do(l.ep.PreparePutNotice(data, l.region.Handle(), 0, noticeTag,
				[]byte(says))); err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			l.rest()
			if len(l.notices) != 1 || l.notices[0] != says || early {
				t.Errorf("%d bytes: notices %q, early: %v", size, l.notices, early)
			}
		}
	})
}

// Puts with notices by the hundred, more than there are places.
func TestPutNoticeMany(t *testing.T) {
	for _, rough := range []bool{false, true} {
		l := newRemoteLab(t, mem.Config{MTUBytes: 1500}, Config{
			SendBuffers: 1024, RecvDepth: 512, FragmentsMax: 512, PeersMax: 16,
		}, rough)
		const count, size = 300, 3000
		data := filled(size, 1)
		ended := 0
		for i := 0; i < count; {
			f, err := l.ep.PreparePutNotice(data, l.region.Handle(), uint64(i%30*size), noticeTag,
				binary.LittleEndian.AppendUint32(nil, uint32(i)))
			if errors.Is(err, ErrAgain) {
				l.step(50 * time.Microsecond)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			f.OnDone = func(_ *Fragment, err error) {
				if ended++; err != nil {
					t.Error(err)
				}
			}
			if _, err := l.ep.Send(l.now, f); err != nil {
				t.Fatal(err)
			}
			i++
		}
		l.until("all end", 100*time.Microsecond, 60*time.Second, func() bool { return ended == count })
		seen := map[uint32]int{}
		for _, n := range l.notices {
			seen[binary.LittleEndian.Uint32([]byte(n))]++
		}
		if len(l.notices) != count || len(seen) != count {
			t.Errorf("%d notices, %d different ones", len(l.notices), len(seen))
		}
	}
}

// What a get brings is what the region holds.
func TestGet(t *testing.T) {
	weathers(t, func(t *testing.T, l *remoteLab) {
		copy(l.mem, filled(len(l.mem), 3))
		for _, size := range []int{0, 1, 8, 1300, 1400, 1500, 20_000, 99_990} {
			into := make([]byte, size+2)
			if _, err := l.do(l.ep.PrepareGet(into[1:size+1], l.region.Handle(), 10)); err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			if !bytes.Equal(into[1:size+1], l.mem[10:][:size]) || into[0] != 0 || into[size+1] != 0 {
				t.Errorf("%d bytes are not those of the region", size)
			}
		}
		l.rest()
	})
}

// Every atomic operation is done once and brings the old value.
func TestAtomics(t *testing.T) {
	weathers(t, func(t *testing.T, l *remoteLab) {
		for i, tc := range []struct {
			a         Atomic
			old, want uint64
		}{
			{Atomic{Action: ActionAdd, WidthBytes: 8, Operand: 5}, 10, 15},
			{Atomic{Action: ActionAdd, WidthBytes: 4, Operand: 5}, 1<<32 - 1, 4},
			{Atomic{Action: ActionSwap, WidthBytes: 8, Operand: 5}, 10, 5},
			{Atomic{Action: ActionCompareSwap, WidthBytes: 8, Operand: 5, Compare: 10}, 10, 5},
			{Atomic{Action: ActionCompareSwap, WidthBytes: 4, Operand: 5, Compare: 11}, 10, 10},
			{Atomic{Action: ActionRead, WidthBytes: 8}, 10, 10},
		} {
			for _, fetch := range []bool{true, false} {
				at := l.mem[8*i:][:8]
				binary.NativeEndian.PutUint64(at, tc.old)
				a := tc.a
				a.Target, a.Offset, a.Fetch = l.region.Handle(), uint64(8*i), fetch
				old, err := l.do(l.ep.PrepareAtomic(a))
				if err != nil {
					t.Fatal(err)
				}
				got := binary.NativeEndian.Uint64(at)
				if fetch && old != tc.old || got != tc.want {
					t.Errorf("%+v of %d: %d before, %d now, want %d", a, tc.old, old, got, tc.want)
				}
			}
		}
	})
}

// Adds by the hundred: each counts once, and their old values are all numbers before the last.
func TestAtomicsMany(t *testing.T) {
	weathers(t, func(t *testing.T, l *remoteLab) {
		const count = 500
		seen := map[uint64]bool{}
		ended := 0
		for i := 0; i < count; {
			f, err := l.ep.PrepareAtomic(Atomic{
				Target: l.region.Handle(), Action: ActionAdd, WidthBytes: 8, Operand: 1, Fetch: true,
			})
			if errors.Is(err, ErrAgain) {
				l.step(50 * time.Microsecond)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			f.OnDone = func(f *Fragment, err error) {
				if ended++; err != nil {
					t.Error(err)
				}
				seen[f.Value()] = true
			}
			if _, err := l.ep.Send(l.now, f); err != nil {
				t.Fatal(err)
			}
			i++
		}
		l.until("all end", 100*time.Microsecond, 60*time.Second, func() bool { return ended == count })
		if got := binary.NativeEndian.Uint64(l.mem); got != count || len(seen) != count || seen[count] {
			t.Errorf("%d adds make %d, and %d different old values", count, got, len(seen))
		}
	})
}

// What may not be done changes nothing, gives no notice, and says what was wrong.
func TestRemoteRefused(t *testing.T) {
	weathers(t, func(t *testing.T, l *remoteLab) {
		m := l.mods[1]
		rights := map[Rights]*Region{}
		for _, r := range []Rights{RemoteWrite, RemoteRead, RemoteAtomic, RemoteNotify, 0} {
			rights[r], _ = m.Expose(l.mem, r)
		}
		other := &Region{m: m}
		m.all.Remote.Expose(&other.is, l.mem, RemoteAll, remote.NewPeer[*peer.Fragment](), 1)
		closed, _ := m.Expose(l.mem, RemoteAll)
		closed.Close()
		all := l.region
		for _, tc := range []struct {
			name   string
			region *Region
			offset uint64
			size   int
			ops    string
			want   peer.AccessReason
		}{
			{"closed", closed, 0, 8, "pnga", peer.ReasonRegion},
			{"another peer's", other, 0, 8, "pnga", peer.ReasonRegion},
			{"behind the end", all, 100_000, 8, "pnga", peer.ReasonBounds},
			{"over the end, in chunks", all, 96_000, 5000, "png", peer.ReasonBounds},
			{"far away", all, 1 << 63, 8, "pnga", peer.ReasonBounds},
			{"not aligned", all, 4, 8, "a", peer.ReasonBounds},
			{"only write", rights[RemoteWrite], 0, 8, "nga", peer.ReasonRight},
			{"only write, in chunks", rights[RemoteWrite], 0, 8000, "n", peer.ReasonRight},
			{"only read", rights[RemoteRead], 0, 8, "pna", peer.ReasonRight},
			{"only atomic", rights[RemoteAtomic], 0, 8, "png", peer.ReasonRight},
			{"only notify", rights[RemoteNotify], 0, 8, "pnga", peer.ReasonRight},
			{"nothing", rights[0], 0, 9000, "png", peer.ReasonRight},
		} {
			for _, op := range tc.ops {
				before := bytes.Clone(l.mem)
				data := filled(tc.size, 99)
				var err error
				needs := map[rune]Rights{
					'p': RemoteWrite, 'n': RemoteWrite | RemoteNotify, 'g': RemoteRead, 'a': RemoteAtomic,
				}[op]
				switch h := tc.region.Handle(); op {
				case 'p':
					_, err = l.do(l.ep.PreparePut(data, h, tc.offset))
				case 'n':
					_, err = l.do(l.ep.PreparePutNotice(data, h, tc.offset, noticeTag, []byte("no")))
				case 'g':
					_, err = l.do(l.ep.PrepareGet(data, h, tc.offset))
				case 'a':
					_, err = l.do(l.ep.PrepareAtomic(Atomic{
						Target: h, Offset: tc.offset, Action: ActionAdd, WidthBytes: 8, Operand: 1,
					}))
				}
				var access *peer.AccessError
				if !errors.Is(err, ErrRemoteAccess) || !errors.As(err, &access) ||
					access.Reason != tc.want || access.Handle != tc.region.Handle() ||
					access.SizeBytes != tc.size || access.Needs != needs {
					t.Errorf("%s, %c: %v, want %v", tc.name, op, err, tc.want)
				}
				if tc.name != "over the end, in chunks" && !bytes.Equal(before, l.mem) {
					t.Errorf("%s, %c: bytes have changed", tc.name, op)
				}
			}
		}
		l.rest()
		if len(l.notices) > 0 {
			t.Errorf("notices of puts that were refused: %q", l.notices)
		}
	})
}

// A region that is withdrawn while it is read, or written: both ends hear of it, and nothing is
// written any more.
func TestRegionCloseUnderWay(t *testing.T) {
	weathers(t, func(t *testing.T, l *remoteLab) {
		for round := range 8 {
			r := new(Region)
			if err := l.mods[1].ExposeAs(r, l.mem, RemoteAll, l.back); err != nil {
				t.Fatal(err)
			}
			ended, ends := make([]error, 0, 2), 0
			into := make([]byte, len(l.mem))
			get, err := l.ep.PrepareGet(into, r.Handle(), 0)
			if err != nil {
				t.Fatal(err)
			}
			put, err := l.ep.PreparePutNotice(filled(len(l.mem), byte(round)), r.Handle(), 0, noticeTag, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range []*Fragment{get, put} {
				f.OnDone = func(_ *Fragment, err error) { ended = append(ended, err) }
				if _, err := l.ep.Send(l.now, f); err != nil {
					t.Fatal(err)
				}
				ends++
			}
			for range round {
				l.step(20 * time.Microsecond)
			}
			r.Close()
			image := bytes.Clone(l.mem)
			l.until("both end", 100*time.Microsecond, 20*time.Second, func() bool {
				return len(ended) == ends
			})
			l.rest()
			for _, err := range ended {
				if err != nil && !errors.Is(err, ErrRemoteAccess) {
					t.Errorf("round %d: %v", round, err)
				}
			}
			if ended[0] == nil && ended[1] == nil && round < 2 {
				t.Error("both ended well before anything could arrive")
			}
			if !bytes.Equal(image, l.mem) {
				t.Errorf("round %d: written after Close", round)
			}
		}
	})
}

// Behind a fence nothing is done before everything ahead of it is.
func TestFence(t *testing.T) {
	weathers(t, func(t *testing.T, l *remoteLab) {
		for round := range 5 {
			data, before := filled(30_000, byte(round)), filled(30_000, byte(round+100))
			into := make([]byte, len(data))
			flag := uint64(50_000)
			binary.NativeEndian.PutUint64(l.mem[flag:], 0)
			copy(l.mem, before)
			ends := 0
			send := func(f *Fragment, err error) {
				if err != nil {
					t.Fatal(err)
				}
				f.OnDone = func(_ *Fragment, err error) {
					if ends++; err != nil {
						t.Error(err)
					}
				}
				if _, err := l.ep.Send(l.now, f); err != nil {
					t.Fatal(err)
				}
			}
			send(l.ep.PrepareGet(into, l.region.Handle(), 0))
			l.ep.Fence(l.now)
			send(l.ep.PreparePut(data, l.region.Handle(), 0))
			l.ep.Fence(l.now)
			l.ep.Fence(l.now)
			send(l.ep.PrepareAtomic(Atomic{
				Target: l.region.Handle(), Offset: flag, Action: ActionSwap, WidthBytes: 8, Operand: 1,
			}))
			l.until("all are done", 20*time.Microsecond, 20*time.Second, func() bool {
				if binary.NativeEndian.Uint64(l.mem[flag:]) == 1 && !bytes.Equal(l.mem[:len(data)], data) {
					t.Fatal("the flag is set, and the bytes before the fence are not there")
				}
				return ends == 3
			})
			if !bytes.Equal(into, before) {
				t.Error("the get has read what was put behind its fence")
			}
		}
	})
}

// What waits for an answer ends with its endpoint, whoever ends it, and nothing is written then.
func TestRemoteEnds(t *testing.T) {
	for name, end := range map[string]struct {
		do   func(l *remoteLab)
		want error
	}{
		"aborted here": {func(l *remoteLab) { l.ep.Abort() }, ErrClosed},
		"closed by the peer, which answers before": {func(l *remoteLab) {
			l.net.SetFilter(nil)
			l.back.Close(l.now)
		}, nil},
		"closed here, which waits for the answer": {func(l *remoteLab) {
			l.net.SetFilter(nil)
			l.ep.Close(l.now)
		}, nil},
		"dead": {func(l *remoteLab) {
			l.net.SetFilter(func(_, _, _ []byte) mem.Verdict { return mem.Drop })
		}, ErrPeerDead},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := smallConfig()
			cfg.PeerTimeout = time.Second
			l := newRemoteLab(t, mem.Config{MTUBytes: 1500}, cfg, false)
			l.settle(time.Second)
			into := make([]byte, 100_000)
			got := errPending
			f, err := l.ep.PrepareGet(into, l.region.Handle(), 0)
			if err != nil {
				t.Fatal(err)
			}
			f.OnDone = func(_ *Fragment, err error) { got = err }
			if _, err := l.ep.Send(l.now, f); err != nil {
				t.Fatal(err)
			}
			// The request is acknowledged, and its answer is lost on the way.
			l.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
				if len(pkt) > 1000 {
					return mem.Drop
				}
				return mem.Deliver
			})
			l.until("the request is acknowledged", 20*time.Microsecond, time.Second, func() bool {
				return flying(l.ep) == 0 && queued(l.ep) == 0
			})
			end.do(l)
			l.until("the get ends", time.Millisecond, 3*time.Second, func() bool {
				return !errors.Is(got, errPending)
			})
			if !errors.Is(got, end.want) {
				t.Errorf("%v, want %v", got, end.want)
			}
			image := bytes.Clone(into)
			for range 100 {
				l.step(time.Millisecond)
			}
			if !bytes.Equal(image, into) {
				t.Error("written after its end")
			}
		})
	}
}
