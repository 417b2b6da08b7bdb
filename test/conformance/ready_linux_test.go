package conformance

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// readyLoop is two modules and whatever else on one epoll descriptor, of one goroutine.
type readyLoop struct {
	t     *testing.T
	epoll int
	mods  []*btl.Module
	fds   []int
	start time.Time
	woken []int // how often the descriptor of each has ended a sleep
	slept int
}

func (l *readyLoop) now() btl.Time { return btl.Time(time.Since(l.start)) + 1 }

// add opens a module and watches its descriptor.
func (l *readyLoop) add(dom fabric.Domain) *btl.Module {
	l.t.Helper()
	m, err := btl.Open(dom, btl.Config{})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { m.Close() })
	fd, err := m.ReadyFd()
	if err != nil {
		l.t.Fatal(err)
	}
	ev := unix.EpollEvent{Fd: int32(fd), Events: unix.EPOLLIN}
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		l.t.Fatal(err)
	}
	l.mods, l.fds, l.woken = append(l.mods, m), append(l.fds, fd), append(l.woken, 0)
	return m
}

// until makes passes, and sleeps between them, until cond holds.
func (l *readyLoop) until(what string, cond func() bool) {
	l.t.Helper()
	for limit := time.Now().Add(patienceReal); !cond(); {
		if time.Now().After(limit) {
			l.t.Fatalf("not within %v: %s", patienceReal, what)
		}
		for _, m := range l.mods {
			if _, err := m.Progress(l.now()); err != nil {
				l.t.Fatal(err)
			}
		}
		if !cond() {
			l.sleep()
		}
	}
}

// sleep sleeps for as long as all modules let it.
func (l *readyLoop) sleep() {
	l.t.Helper()
	most := patienceReal
	for _, m := range l.mods {
		if d := m.Arm(l.now()); d >= 0 {
			most = min(most, d)
		}
	}
	var events [4]unix.EpollEvent
	if most > 0 {
		l.slept++
	}
	ms := (most + time.Millisecond - 1).Milliseconds()
	n, err := unix.EpollWait(l.epoll, events[:], int(ms))
	if err != nil && !errors.Is(err, unix.EINTR) {
		l.t.Fatal(err)
	}
	for _, ev := range events[:max(n, 0)] {
		for i, fd := range l.fds {
			if int32(fd) == ev.Fd {
				l.woken[i]++
			}
		}
	}
	for _, m := range l.mods {
		m.Disarm()
	}
}

// TestReady, model: fabtests functional/msg_epoll and functional/poll. Two modules share the sleep
// of a loop: what comes to either ends it, each time, and so does Wake, of any goroutine.
func TestReady(t *testing.T) {
	for _, provider := range []string{"udp", "shm", "ofi/udp", "ofi/tcp"} {
		t.Run(provider, func(t *testing.T) { testReady(t, provider) })
	}
}

func testReady(t *testing.T, provider string) {
	node := "127.0.0.1"
	if provider == "shm" {
		node = ""
	}
	net := registered(provider, node, 0)(t, opts{}).(*realNet)
	open := func() fabric.Domain {
		dom, err := net.station(t).open(btl.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return dom.(narrow).Domain
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(epoll)
	l := &readyLoop{t: t, epoll: epoll, start: time.Now()}
	const tag, rounds = btl.Tag(1), 100
	other, err := btl.Open(open(), btl.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var late atomic.Bool // the peer answers late, so that the loop sleeps before the answer comes
	if err := other.Handle(tag, func(ep *btl.Endpoint, tag btl.Tag, data []byte) {
		if late.Load() {
			time.Sleep(time.Millisecond)
		}
		f, err := ep.Alloc(tag, len(data))
		if err == nil {
			copy(f.Bytes(), data)
			_, err = ep.Send(ep.Now(), f)
		}
		if err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	name := other.Name()
	r := runner.New(other, runner.Config{}, nil)
	defer r.Close(t.Context())
	came := [2]int{}
	var eps [2]*btl.Endpoint
	for i := range eps {
		m := l.add(open())
		if err := m.Handle(tag, func(*btl.Endpoint, btl.Tag, []byte) { came[i]++ }); err != nil {
			t.Fatal(err)
		}
		if eps[i], err = m.Connect(l.now(), name); err != nil {
			t.Fatal(err)
		}
	}
	l.until("connected", func() bool { return eps[0].Connected() && eps[1].Connected() })
	// By timers it would get on, too: so sleeps are wanted that end because something has come.
	few := func() bool { return min(l.woken[0], l.woken[1]) < rounds/20 }
	for round := 0; round < rounds || few() && round < 20*rounds; round++ {
		i := round % 2
		late.Store(round >= rounds)
		f, err := eps[i].Prepare(tag, []byte("ping"))
		if err == nil {
			_, err = eps[i].Send(l.now(), f)
		}
		if err != nil {
			t.Fatal(err)
		}
		l.until(fmt.Sprintf("answer %d", round), func() bool { return came[i] == round/2+1 })
	}
	if few() {
		t.Errorf("what has come has ended %v sleeps", l.woken)
	}
	for i, m := range l.mods { // idle by now: nothing but Wake ends a sleep, and that does
		woken := false
		go func() {
			time.Sleep(2 * time.Millisecond)
			m.Wake()
		}()
		before := l.woken[i]
		l.until("woken", func() bool { woken = woken || l.woken[i] > before; return woken })
	}
	t.Logf("%d sleeps, ended %v times", l.slept, l.woken)
}

// TestNotReady: whose network has no descriptor says so.
func TestNotReady(t *testing.T) {
	nw := mem.New(mem.Config{})
	infos, err := nw.Provider().GetInfo(fabric.Hints{})
	if err != nil {
		t.Fatal(err)
	}
	dc, err := new(btl.Config).DomainConfig(infos[0])
	if err != nil {
		t.Fatal(err)
	}
	dom, err := nw.Provider().Open(infos[0], dc)
	if err != nil {
		t.Fatal(err)
	}
	m, err := btl.Open(dom, btl.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.ReadyFd(); !errors.Is(err, fabric.ErrNotSupported) {
		t.Errorf("ReadyFd: %v", err)
	}
	if d := m.Arm(1); d != 0 {
		t.Errorf("it may sleep for %v", d)
	}
	m.Disarm()
}
