//go:build linux

package shm

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/internal/testenv"
)

// limitDescriptors lets the process open none whose number is most or above, until undo is called.
func limitDescriptors(t *testing.T, most uint64) (undo func()) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = min(low.Cur, most)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	}
}

// scarce has the process run out of descriptors: leave leaves it so many, restore all of them.
func scarce(t *testing.T, d *domain) (leave func(n int), restore func()) {
	t.Helper()
	unlimit := limitDescriptors(t, 256)
	var taken []int
	leave = func(n int) {
		for {
			fd, err := unix.Dup(d.loop.epoll)
			if err != nil {
				break
			}
			taken = append(taken, fd)
		}
		for range n {
			unix.Close(taken[len(taken)-1])
			taken = taken[:len(taken)-1]
		}
	}
	restore = func() {
		for _, fd := range taken {
			unix.Close(fd)
		}
		taken = nil
		unlimit()
	}
	return leave, restore
}

// Who has no descriptor left when a peer is to be reached reaches it when there is one again.
func TestDescriptorsComeBack(t *testing.T) {
	rd, re := openOne(t, fabric.EndpointConfig{})
	sd, se := openOne(t, fabric.EndpointConfig{TxDepth: 64})
	recv(t, re, 0)
	to := insert(t, sd, re)
	leave, restore := scarce(t, sd)
	defer restore()
	for n := 1; n >= 0; n-- { // for the ring's memory alone, then for nothing
		leave(n)
		if _, err := se.Post([]fabric.Send{{To: to, Buf: 1, Len: 1000}}); err != nil {
			t.Fatalf("%d descriptors left: %v", n, err)
		}
	}
	var out [8]fabric.Completion
	for range 10 {
		if n, err := se.Poll(out[:]); n > 0 || err != nil {
			t.Fatalf("%d sends have ended, %+v, %v: the test shows nothing", n, out[0], err)
		}
	}
	restore()
	sent, got := 0, 0
	for range 100_000 {
		n, _ := se.Poll(out[:])
		for _, c := range out[:n] {
			if sent++; c.Errno != 0 {
				t.Error("a send:", unix.Errno(c.Errno))
			}
		}
		rd.loop.tend()
		n, _ = re.Poll(out[:1])
		if got += n; got == 2 && sent == 2 {
			return
		}
		if n > 0 {
			recv(t, re, 0)
		}
	}
	t.Errorf("%d of 2 sent, %d received", sent, got)
}

// Who has a descriptor for a peer's socket, but none for the ring that comes with it, lets it wait
// at the door instead of refusing it.
func TestNoDescriptorForRing(t *testing.T) {
	rd, re := openOne(t, fabric.EndpointConfig{})
	sd, se := openOne(t, fabric.EndpointConfig{})
	recv(t, re, 0)
	if n, err := se.Post([]fabric.Send{{To: insert(t, sd, re), Buf: 1, Len: 1000}}); n != 1 {
		t.Fatal(err)
	}
	leave, restore := scarce(t, rd)
	defer restore()
	leave(1)
	for range 2 * deafTends {
		rd.loop.tend()
		sd.loop.tend()
	}
	if rd.loop.inLinks != 0 {
		t.Fatal("it was let in: the test shows nothing")
	}
	restore()
	for range deafTends + 1 {
		rd.loop.tend()
		sd.loop.tend()
	}
	var out [4]fabric.Completion
	if n, _ := re.Poll(out[:]); n != 1 || out[0].Len != 1000 {
		t.Errorf("%d datagrams came, want 1", n)
	}
	if n, _ := se.Poll(out[:]); n != 1 || out[0].Errno != 0 {
		t.Errorf("%d sends ended: %v", n, unix.Errno(out[0].Errno))
	}
}

// Peers leave half of the process's descriptors to what else it does, and one of them half of those
// to the others.
func TestLinksLeaveDescriptors(t *testing.T) {
	undo := limitDescriptors(t, 256)
	most := mostIn()
	undo()
	o := loop{perPID: map[int32]int{}, inMax: most}
	count := func(pid int32) (n int) {
		for ; o.mayTake(pid); n++ {
			o.inLinks++
			o.perPID[pid]++
		}
		return n
	}
	if got := [...]int{count(7), count(8), count(9)}; got != [...]int{64, 64, 0} {
		t.Errorf("%v links of three processes with 256 descriptors, want 64, 64 and 0", got)
	}
}

// Processes of other PID namespaces, which the kernel does not tell apart, have more links together
// than one that it knows, and leave some to it.
func TestLinksOfStrangers(t *testing.T) {
	o := loop{perPID: map[int32]int{}, inMax: linksMax}
	count := func(pid int32) (n int) {
		for o.mayTake(pid) {
			o.inLinks++
			o.perPID[pid]++
			n++
		}
		return n
	}
	if known, strange := count(7), count(0); known != linksPerProcess ||
		strange != linksMax-linksPerProcess || o.mayTake(8) {
		t.Errorf("%d of a process, %d of those that cannot be told apart", known, strange)
	}
}

// The directory of the sockets may be there first, of another user: that is told.
func TestDirectoryOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Missing(t, "root, to be two users")
	}
	const uid = 1<<31 - 7
	dir := socketDir(uid)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(dir)
	runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine
	if err := unix.Setfsuid(uid); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o700, 0o755} {
		unix.Setfsuid(0)
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		unix.Setfsuid(uid)
		fd, err := openDir(uid)
		if err == nil {
			unix.Close(fd)
		}
		if !errors.Is(err, fabric.ErrUnavailable) || !strings.Contains(err.Error(), "user 0") {
			t.Errorf("mode %v: %v, want one that says whose it is", mode, err)
		}
	}
	unix.Setfsuid(0)
}
