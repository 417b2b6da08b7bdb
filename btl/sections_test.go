package btl

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/internal/testenv"
)

// sectionsLab is a remoteLab with a second region at the target, and sections over both.
type sectionsLab struct {
	*remoteLab
	more   []byte
	second *Region
}

func newSectionsLab(t *testing.T, l *remoteLab) *sectionsLab {
	t.Helper()
	s := &sectionsLab{remoteLab: l, more: make([]byte, 50_000)}
	var err error
	if s.second, err = l.mods[1].Expose(s.more, RemoteAll); err != nil {
		t.Fatal(err)
	}
	return s
}

// over are sections of these sizes, which lie apart from each other and in the regions in turn.
func (l *sectionsLab) over(seed byte, sizes ...int) (sections []Section) {
	at := [2]int{3, 5}
	for i, size := range sizes {
		r := [...]*Region{l.region, l.second}[i%2]
		sections = append(sections, Section{
			Mem: filled(size, seed+byte(i)), Target: r.Handle(), Offset: uint64(at[i%2]),
		})
		at[i%2] += size + 7
	}
	return sections
}

// there is the memory of the target that belongs to a section.
func (l *sectionsLab) there(s *Section) []byte {
	r := l.region
	if s.Target == l.second.Handle() {
		r = l.second
	}
	return r.Bytes()[s.Offset:][:len(s.Mem)]
}

// inPlace says whether the bytes of all sections are where they belong.
func (l *sectionsLab) inPlace(sections []Section) bool {
	for i := range sections {
		if !bytes.Equal(sections[i].Mem, l.there(&sections[i])) {
			return false
		}
	}
	return true
}

// elsewhere says whether anything but zeros stands in the regions besides.
func (l *sectionsLab) elsewhere(sections []Section) bool {
	a, b := bytes.Clone(l.mem), bytes.Clone(l.more)
	for i := range sections {
		s := &sections[i]
		if s.Target == l.region.Handle() {
			clear(a[s.Offset:][:len(s.Mem)])
		} else {
			clear(b[s.Offset:][:len(s.Mem)])
		}
	}
	return len(bytes.Trim(a, "\x00")) != 0 || len(bytes.Trim(b, "\x00")) != 0
}

var sectionSizes = [][]int{
	{1},
	{20_000},
	{1, 1},
	{8, 8, 8, 8},
	{1400, 1400},
	{5000, 3, 5000},
	{1, 30_000, 1400, 1, 9000},
	{100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100},
}

// A put of several sections ends when all its bytes are where they belong, and nothing is written
// elsewhere; its notice comes once, and not before.
func TestPutSections(t *testing.T) {
	for _, notice := range []bool{false, true} {
		weathers(t, func(t *testing.T, l *remoteLab) {
			s := newSectionsLab(t, l)
			for i, sizes := range sectionSizes {
				clear(l.mem)
				clear(s.more)
				l.notices = nil
				sections := s.over(byte(i+1), sizes...)
				early := false
				_ = l.mods[1].Handle(noticeTag, func(_ *Endpoint, _ Tag, b []byte) {
					early = early || !s.inPlace(sections)
					l.notices = append(l.notices, string(b))
				})
				var err error
				if notice {
					_, err = l.do(l.ep.PreparePutSectionsNotice(sections, noticeTag, []byte("all")))
				} else {
					_, err = l.do(l.ep.PreparePutSections(sections))
				}
				if err != nil || !s.inPlace(sections) {
					t.Errorf("%d: %v, in place: %v", sizes, err, s.inPlace(sections))
				}
				l.rest()
				if n := len(l.notices); notice && n != 1 || !notice && n != 0 || early {
					t.Errorf("%d: notices %q, early: %v", sizes, l.notices, early)
				}
				if s.elsewhere(sections) {
					t.Errorf("%d: written elsewhere", sizes)
				}
			}
		})
	}
}

// A get of several sections brings what the regions hold, each into its own memory.
func TestGetSections(t *testing.T) {
	weathers(t, func(t *testing.T, l *remoteLab) {
		s := newSectionsLab(t, l)
		copy(l.mem, filled(len(l.mem), 3))
		copy(s.more, filled(len(s.more), 77))
		for i, sizes := range sectionSizes {
			sections := s.over(byte(i+1), sizes...)
			if _, err := l.do(l.ep.PrepareGetSections(sections)); err != nil || !s.inPlace(sections) {
				t.Errorf("%d: %v, in place: %v", sizes, err, s.inPlace(sections))
			}
		}
		l.rest()
	})
}

// Of an operation of which any section is refused the error says which one that was, and there is
// no notice.
func TestSectionsRefused(t *testing.T) {
	weathers(t, func(t *testing.T, l *remoteLab) {
		s := newSectionsLab(t, l)
		mute, _ := l.mods[1].Expose(make([]byte, 60_000), RemoteWrite)
		closed, _ := l.mods[1].Expose(make([]byte, 60_000), RemoteAll)
		closed.Close()
		for _, sizes := range [][]int{{8, 8, 8}, {20_000, 8, 3000}, {8, 30_000, 8}} {
			for bad := range sizes {
				for _, tc := range []struct {
					why AccessReason
					do  func(*Section)
				}{
					{ReasonBounds, func(s *Section) { s.Offset = 99_999 }},
					{ReasonRegion, func(s *Section) { s.Target = closed.Handle() }},
					{ReasonRight, func(s *Section) { s.Target = mute.Handle() }},
				} {
					for _, op := range "ng" {
						sections := s.over(1, sizes...)
						tc.do(&sections[bad])
						var err error
						needs := RemoteRead
						if op == 'n' {
							needs = RemoteWrite | RemoteNotify
							_, err = l.do(l.ep.PreparePutSectionsNotice(sections, noticeTag, nil))
						} else {
							_, err = l.do(l.ep.PrepareGetSections(sections))
						}
						var why *AccessError
						if !errors.As(err, &why) || why.Reason != tc.why || why.SizeBytes != sizes[bad] ||
							why.Needs != needs ||
							why.Handle != sections[bad].Target || why.Offset != sections[bad].Offset {
							t.Errorf("%c: section %d of %d: %v, want %v", op, bad, sizes, err, tc.why)
						}
					}
				}
			}
		}
		l.rest()
		if len(l.notices) > 0 {
			t.Errorf("%d notices of puts that were refused", len(l.notices))
		}
	})
}

// More puts of sections with notices than there are places, mixed with other puts and gets.
func TestSectionsMany(t *testing.T) {
	weathers(t, func(t *testing.T, l *remoteLab) {
		s := newSectionsLab(t, l)
		const count = 150
		ended, noticed := 0, 0
		done := func(_ *Fragment, err error) {
			if ended++; err != nil {
				t.Error(err)
			}
		}
		for i := 0; i < count; {
			var f *Fragment
			var err error
			sections := s.over(byte(i), 2000, 8, 1500)
			switch i % 3 {
			case 0, 1:
				f, err = l.ep.PreparePutSectionsNotice(sections[:1+i%3], noticeTag, nil)
			case 2:
				f, err = l.ep.PrepareGetSections(sections)
			}
			if errors.Is(err, ErrAgain) {
				l.step(50 * time.Microsecond)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if i%3 < 2 {
				noticed++
			}
			f.OnDone = done
			if _, err := l.ep.Send(l.now, f); err != nil {
				t.Fatal(err)
			}
			i++
		}
		l.until("all end", 100*time.Microsecond, 60*time.Second, func() bool { return ended == count })
		l.rest()
		if len(l.notices) != noticed {
			t.Errorf("%d notices of %d", len(l.notices), noticed)
		}
		// A get ends with its bytes, which may be before the ACK of what asked for them.
		l.until("all is acknowledged", time.Millisecond, time.Second, func() bool {
			return l.ep.snd.InFlight() == 0
		})
		l.wantIdle(0)
		l.wantIdle(1)
	})
}

// What cannot be an operation is refused at once, and costs nothing.
func TestSectionsBounds(t *testing.T) {
	cfg := smallConfig()
	cfg.FragmentBytesMax = 30 << 10
	l := newSectionsLab(t, newRemoteLab(t, mem.Config{}, cfg, false))
	one := l.over(1, 8)
	beyond := Section{Mem: one[0].Mem, Offset: 1<<64 - 4}
	many := make([]Section, cfg.FragmentsMax/4)
	for i := range many {
		many[i] = one[0]
	}
	for name, tc := range map[string]struct {
		sections []Section
		want     error
	}{
		"none":          {nil, ErrConfig},
		"an empty one":  {append(l.over(1, 8), Section{Target: 1}), ErrConfig},
		"too many":      {many, ErrTooLarge},
		"too long":      {l.over(1, 20<<10, 20<<10), ErrTooLarge},
		"beyond memory": {append(l.over(1, 8), beyond), ErrRemoteAccess},
	} {
		put, err := l.ep.PreparePutSections(tc.sections)
		if put != nil || !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	if _, err := l.ep.PreparePutSectionsNotice(one, TagMax+1, nil); !errors.Is(err, ErrTag) {
		t.Error(err)
	}
	f, err := l.ep.PrepareGetSections(l.over(1, 8, 8, 8))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.ep.Free(f); err != nil {
		t.Error(err)
	}
	l.settle(time.Second)
	l.wantIdle(0)
}

// An operation is taken back with all its sections, or not at all; and it ends with its endpoint,
// told once, however it is held.
func TestSectionsEnd(t *testing.T) {
	rng := newRand(testenv.Seed(t, 5))
	for round := range 100 {
		l := newSectionsLab(t, newRemoteLab(t, mem.Config{MTUBytes: 1500}, smallConfig(), round%2 == 1))
		held, pulled := rng.IntN(2) == 0, rng.IntN(2) == 0
		l.mods[0].PullCompletions(pulled)
		var frags []*Fragment
		told := map[*Fragment]int{}
		for range 4 {
			sections := l.over(1, [][]int{{8, 8}, {1400, 8, 20_000}, {30_000, 4000}}[rng.IntN(3)]...)
			var f *Fragment
			var err error
			switch rng.IntN(3) {
			case 0:
				f, err = l.ep.PreparePutSections(sections)
			case 1:
				f, err = l.ep.PreparePutSectionsNotice(sections, noticeTag, []byte{byte(len(frags))})
			default:
				f, err = l.ep.PrepareGetSections(sections)
			}
			if err != nil {
				t.Fatal(err)
			}
			f.Held, f.OnDone = held, func(f *Fragment, _ error) { told[f]++ }
			f.Context = uint64(len(frags))
			if _, err := l.ep.Send(l.now, f); err != nil {
				t.Fatal(err)
			}
			frags = append(frags, f)
		}
		for range rng.IntN(10) {
			l.step(10 * time.Microsecond)
		}
		canceled := map[uint64]bool{}
		for i, f := range frags {
			if held || told[f] == 0 && !pulled {
				canceled[uint64(i)] = l.ep.Cancel(l.now, f) == nil
			}
		}
		if rng.IntN(2) == 0 {
			l.ep.Abort()
		}
		ends := 0
		l.until("all end", 100*time.Microsecond, 60*time.Second, func() bool {
			var c [16]Completion
			for _, c := range c[:l.mods[0].Pull(c[:])] {
				if c.Kind == CompletionSend {
					if ends++; errors.Is(c.Err, ErrCanceled) != canceled[c.Context] {
						t.Errorf("canceled: %v, ended with %v", canceled[c.Context], c.Err)
					}
				}
			}
			if !held {
				return ends+len(told) == len(frags)
			}
			over := 0
			for i, f := range frags {
				o, err := f.Poll()
				if o {
					over++
				}
				if o && errors.Is(err, ErrCanceled) != canceled[uint64(i)] {
					t.Errorf("canceled: %v, ended with %v", canceled[uint64(i)], err)
				}
			}
			return over == len(frags)
		})
		if held {
			for _, f := range frags {
				if err := l.ep.Free(f); err != nil {
					t.Error(err)
				}
			}
		}
		for f, n := range told {
			if n != 1 {
				t.Errorf("%p was told %d times", f, n)
			}
		}
		for _, n := range l.notices {
			if canceled[uint64(n[0])] {
				t.Error("a notice of what was canceled")
			}
		}
		l.net.SetFilter(nil)
		l.until("nothing is left", time.Millisecond, time.Minute, func() bool {
			return l.mods[0].CheckIdle() == nil
		})
	}
}

// What is sent before the connection is there leaves when it is; if the peer takes a section not,
// or all of them together, the operation ends with that, told once.
func TestSectionsBeforeConnected(t *testing.T) {
	for _, tc := range []struct {
		name string
		most uint32 // that the peer takes
		want error
	}{
		{"all is taken", 1 << 20, nil},
		{"one is too long", 15_000, ErrTooLarge},
		{"together they are, for a notice", 25_000, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t, mem.Config{MTUBytes: 1500}, 1, smallConfig())
			cfg := smallConfig()
			cfg.FragmentBytesMax = tc.most
			l.add(cfg, "")
			region, err := l.mods[1].Expose(make([]byte, 100_000), RemoteAll)
			if err != nil {
				t.Fatal(err)
			}
			notices := 0
			_ = l.mods[1].Handle(noticeTag, func(*Endpoint, Tag, []byte) { notices++ })
			ep, err := l.mods[0].Connect(l.now, l.mods[1].Name())
			if err != nil {
				t.Fatal(err)
			}
			sections := []Section{
				{Mem: make([]byte, 8), Target: region.Handle()},
				{Mem: make([]byte, 20_000), Target: region.Handle(), Offset: 100},
				{Mem: make([]byte, 9000), Target: region.Handle(), Offset: 30_000},
			}
			put, err1 := ep.PreparePutSections(sections)
			notice, err2 := ep.PreparePutSectionsNotice(sections, noticeTag, nil)
			get, err3 := ep.PrepareGetSections(sections)
			ends := map[*Fragment][]error{}
			for _, f := range []*Fragment{put, notice, get} {
				if err := errors.Join(err1, err2, err3); err != nil {
					t.Fatal(err)
				}
				f.Held, f.OnDone = true, func(f *Fragment, err error) { ends[f] = append(ends[f], err) }
				if _, err := ep.Send(l.now, f); err != nil {
					t.Fatal(err)
				}
			}
			l.until("all end", 100*time.Microsecond, 10*time.Second, func() bool { return len(ends) == 3 })
			want := map[*Fragment]error{put: tc.want, get: nil, notice: tc.want}
			if tc.most < 29_008 {
				want[notice] = ErrTooLarge
			}
			for f, errs := range ends {
				if len(errs) != 1 || !errors.Is(errs[0], want[f]) {
					t.Errorf("ended with %v, want %v (put %p, notice %p, get %p: %p)", errs, want[f], put,
						notice, get, f)
				}
				if err := ep.Free(f); err != nil {
					t.Error(err)
				}
			}
			if (notices == 1) != (want[notice] == nil) {
				t.Errorf("%d notices", notices)
			}
			l.settle(time.Second)
			l.wantIdle(0)
		})
	}
}
