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

// Who has no descriptor left when a peer is to be reached reaches it when there is one again.
func TestDescriptorsComeBack(t *testing.T) {
	rd, re := openOne(t, fabric.EndpointConfig{})
	sd, se := openOne(t, fabric.EndpointConfig{TxDepth: 64})
	recv(t, re, 0)
	to := insert(t, sd, re)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = min(low.Cur, 256)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	var taken []int
	restore := func() {
		for _, fd := range taken {
			unix.Close(fd)
		}
		taken = nil
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}
	defer restore()
	for leave := 1; leave >= 0; leave-- { // for the ring's memory alone, then for nothing
		for {
			fd, err := unix.Dup(se.domain.loop.epoll)
			if err != nil {
				break
			}
			taken = append(taken, fd)
		}
		if leave > 0 {
			unix.Close(taken[len(taken)-1])
			taken = taken[:len(taken)-1]
		}
		if _, err := se.Post([]fabric.Send{{To: to, Buf: 1, Len: 1000}}); err != nil {
			t.Fatalf("%d descriptors left: %v", leave, err)
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

// Processes of other PID namespaces, which the kernel does not tell apart, have more links together
// than one that it knows, and leave some to it.
func TestLinksOfStrangers(t *testing.T) {
	o := loop{perPID: map[int32]int{}}
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
