package btl

import (
	"bytes"
	"errors"
	"testing"

	"gobtl/btl/internal/remote"
	"gobtl/fabric/mem"
)

// Who is owed as many answers as any peer may ask for gets no further ones, whatever it asks.
func TestRemoteOwedBounded(t *testing.T) {
	l := newRemoteLab(t, mem.Config{MTUBytes: 1500}, smallConfig(), false)
	add := Atomic{
		Target: l.region.Handle(), Action: ActionAdd, WidthBytes: 8, Operand: 1, Fetch: true,
	}
	m, back := l.mods[1], l.back.c.Memory()
	for _, owed := range []int{remote.AsksMax, remote.AsksMax - 1} {
		var ends []func()
		for range owed {
			answer := m.all.Remote.AnswerResult(back, nil, 0, 0)
			ends = append(ends, func() { m.all.Remote.EndAnswer(back, answer) })
		}
		copy(l.mem, filled(3000, 1))
		got := make([]byte, 3000)
		_, getErr := l.do(l.ep.PrepareGet(got, l.region.Handle(), 0))
		_, addErr := l.do(l.ep.PrepareAtomic(add))
		for _, end := range ends {
			end()
		}
		for _, err := range []error{getErr, addErr} {
			var access *AccessError
			if refused := errors.As(err, &access) && access.Reason == ReasonRegion; refused !=
				(owed == remote.AsksMax) {
				t.Errorf("one that is owed %d answers: %v", owed, err)
			}
		}
		if want := filled(3000, 1); (owed != remote.AsksMax) != bytes.Equal(got, want) {
			t.Errorf("one that is owed %d answers: other bytes", owed)
		}
	}
	if n := counter(l.mods[1], CntDropAccess); n != 2 {
		t.Errorf("%d refused, want 2", n)
	}
	l.rest()
	if n := back.Owed(); n != 0 {
		t.Errorf("%d answers have not left", n)
	}
}

// A notice for which there is no handler is refused, and its put ends with that, whether it has a
// packet of its own or not.
func TestNoticeWithoutHandler(t *testing.T) {
	weathers(t, func(t *testing.T, l *remoteLab) {
		for i, size := range []int{8, 5000} {
			data := filled(size, byte(i+1))
			const tag = noticeTag + 1
			_, err := l.do(l.ep.PreparePutNotice(data, l.region.Handle(), 0, tag, []byte("no")))
			if !errors.Is(err, ErrNoHandler) {
				t.Errorf("%d bytes: %v, want %v", size, err, ErrNoHandler)
			}
			if n := counter(l.mods[1], CntDropNoHandler); n == 0 {
				t.Errorf("%d bytes: nothing is refused", size)
			}
		}
		l.rest()
		if len(l.notices) > 0 {
			t.Errorf("notices %q", l.notices)
		}
	})
}
