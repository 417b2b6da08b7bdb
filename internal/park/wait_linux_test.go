package park

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newParker returns a Parker with a bell.
func newParker(t *testing.T) (*Parker, *Bell) {
	t.Helper()
	bell, err := NewBell()
	if err != nil {
		t.Fatal(err)
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(bell.Fd())}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, bell.Fd(), &e); err != nil {
		t.Fatal(err)
	}
	p := new(Parker)
	if !p.Open(epoll, int32(bell.Fd())) {
		t.Fatal("no Parker")
	}
	t.Cleanup(func() {
		p.Close()
		p.Hasten(time.Second) // too late
		bell.Close()
	})
	return p, bell
}

// TestWait checks that a Wait ends by the bell or after its own time, and not at the time of an
// earlier Wait.
func TestWait(t *testing.T) {
	const short, long = 20 * time.Millisecond, 200 * time.Millisecond
	p, bell := newParker(t)
	wait := func(timeout time.Duration, wantRung bool, atLeast time.Duration) {
		t.Helper()
		begin := time.Now()
		rung, err := p.Wait(timeout)
		if took := time.Since(begin); err != nil || rung != wantRung || took < atLeast {
			t.Errorf("a Wait of %v ends after %v, by the bell: %v, %v", timeout, took, rung, err)
		}
		bell.Hush()
	}
	wait(short, false, short)
	wait(0, false, 0)
	bell.Ring()
	wait(short, true, 0) // its timer would fire during the next Wait
	wait(long, false, long)
	bell.Ring()
	wait(short, true, 0)
	time.AfterFunc(long, bell.Ring)
	wait(-1, true, 0)
	wait(short, false, short) // its timer fires, and must be silent during the next Wait
	time.AfterFunc(short, bell.Ring)
	wait(-1, true, 0)
}

// TestStill checks that a Wait that ends early leaves its timer set, which saves a system call, and
// that Still stops the timer. A timer that has fired is silent at once.
func TestStill(t *testing.T) {
	p, bell := newParker(t)
	runs := func() bool {
		var at unix.ItimerSpec
		if err := unix.TimerfdGettime(p.timer, &at); err != nil {
			t.Fatal(err)
		}
		return at.Value != unix.Timespec{}
	}
	ready := func() int {
		var events [4]unix.EpollEvent
		var n int
		err := p.raw.Control(func(fd uintptr) { n, _ = unix.EpollWait(int(fd), events[:], 0) })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	bell.Ring()
	if _, err := p.Wait(time.Hour); err != nil || !runs() {
		t.Errorf("%v, or the timer was stopped", err)
	}
	bell.Hush()
	if p.Still(); runs() {
		t.Error("the timer runs on")
	}
	if _, err := p.Wait(time.Millisecond); err != nil || ready() != 0 {
		t.Errorf("%v, or the timer rings after its Wait", err)
	}
	bell.Ring()
	if _, err := p.Wait(time.Millisecond); err != nil {
		t.Error(err)
	}
	bell.Hush()
	time.Sleep(3 * time.Millisecond)
	if p.Still(); ready() != 0 {
		t.Error("the timer of a Wait that is over rings")
	}
	p.Hasten(time.Millisecond)
	if p.Still(); runs() {
		t.Error("Still sets the timer for the Wait to come")
	}
}

// TestHasten checks that a Wait in progress and the next Wait end sooner after Hasten.
func TestHasten(t *testing.T) {
	const hour = time.Hour
	p, _ := newParker(t)
	for _, timeout := range []time.Duration{hour, -1} {
		p.Hasten(10 * time.Millisecond)
		if rung, err := p.Wait(timeout); rung || err != nil {
			t.Error(rung, err)
		}
		time.AfterFunc(10*time.Millisecond, func() { p.Hasten(10 * time.Millisecond) })
		if rung, err := p.Wait(timeout); rung || err != nil {
			t.Error(rung, err)
		}
	}
	p.Hasten(hour) // not later than without Hasten
	if rung, err := p.Wait(time.Millisecond); rung || err != nil {
		t.Error(rung, err)
	}
}
