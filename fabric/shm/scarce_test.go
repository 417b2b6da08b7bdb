//go:build linux

package shm

import (
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/internal/testenv"
)

// limitDescriptors prevents the process from opening descriptors with numbers from most on, until
// undo is called.
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

// scarce makes the process run out of descriptors. The function leave leaves n descriptors, and
// restore restores all of them.
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

// TestDescriptorsComeBack checks a process without a descriptor for reaching a peer. The process
// reaches the peer when a descriptor is free again.
func TestDescriptorsComeBack(t *testing.T) {
	rd, re := openOne(t, fabric.EndpointConfig{})
	sd, se := openOne(t, fabric.EndpointConfig{TxDepth: 64})
	recv(t, re, 0)
	to := insert(t, sd, re)
	leave, restore := scarce(t, sd)
	defer restore()
	for n := 1; n >= 0; n-- { // first enough for the ring's memory only, then for nothing
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

// TestNoDescriptorForRing checks a process with a descriptor for a peer's socket but none for the
// peer's ring. The process lets the peer wait instead of refusing it.
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

// TestLinksLeaveDescriptors checks that peers leave half of the process's descriptors free, and
// that one process leaves half of the links to others.
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

// TestLinksOfStrangers checks processes of other PID namespaces, which the kernel does not
// distinguish. Together they may have more links than one known process, but leave some links to a
// known process.
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

// TestSmallFiles checks a process with a small file size limit, which makes small rings. If even
// the smallest ring exceeds the limit, the error says so.
func TestSmallFiles(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limit := func(bytes uint64) {
		now := unix.Rlimit{Cur: bytes, Max: before.Max}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &now); err != nil {
			t.Fatal(err)
		}
	}
	defer limit(before.Cur)
	limit(1 << 20)
	rd, re := openOne(t, fabric.EndpointConfig{})
	sd, se := openOne(t, fabric.EndpointConfig{})
	recv(t, re, 0)
	if n, err := se.Post([]fabric.Send{{To: insert(t, sd, re), Buf: 1, Len: 1000}}); n != 1 {
		t.Fatal(err)
	}
	rd.loop.tend()
	var out [4]fabric.Completion
	if n, _ := re.Poll(out[:]); n != 1 || out[0].Len != 1000 {
		t.Errorf("%d datagrams came where files have 1 MiB, want 1", n)
	}
	limit(100 << 10)
	_, err := fabric.GetInfo(fabric.Hints{Provider: ProviderName})
	if !errors.Is(err, fabric.ErrUnavailable) || !strings.Contains(err.Error(), "RLIMIT_FSIZE") {
		t.Errorf("where files have 100 KiB: %v, want one that says so", err)
	}
}

// TestKnocks checks that a peer that sends wake-up packets without end does not delay other peers.
func TestKnocks(t *testing.T) {
	const kind = unix.SOCK_SEQPACKET | unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	const sent = 8 // more than the queue of any socket
	for range sent {
		if err := unix.Send(fds[0], knockBytes[:], unix.MSG_DONTWAIT); err != nil {
			t.Fatal(err)
		}
	}
	var scratch [16]byte
	if knocks, alive := hush(fds[1], scratch[:]); !knocks || !alive {
		t.Fatalf("knocks: %v, alive: %v", knocks, alive)
	}
	if n, err := unix.Read(fds[1], scratch[:]); n != 1 {
		t.Errorf("all of %d knocks were read at once: %v", sent, err)
	}
}

// TestIdlePeers checks that with many silent peers a poll scans few rings, until a peer sends
// something.
func TestIdlePeers(t *testing.T) {
	rd, re := openOne(t, fabric.EndpointConfig{})
	recv(t, re, 0, 1, 2, 3)
	var out [4]fabric.Completion
	d, _ := openOne(t, fabric.EndpointConfig{})
	var say []func()
	for range 2 * scanRings { // one endpoint for each ring
		x, err := d.OpenEndpoint(fabric.EndpointConfig{})
		if err != nil {
			t.Fatal(err)
		}
		to := insert(t, d, re)
		say = append(say, func() {
			if _, err := x.Post([]fabric.Send{{To: to, Buf: 0, Len: 100}}); err != nil {
				t.Fatal(err)
			}
		})
		say[len(say)-1]()
		rd.loop.tend()
		await(t, "a datagram", func() bool {
			n, err := re.Poll(out[:])
			if err != nil {
				t.Fatal(err)
			}
			if n == 1 {
				recv(t, re, out[0].Buf)
			}
			return n == 1
		})
	}
	look := func() int {
		before := re.scan
		n, err := re.Poll(out[:])
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			recv(t, re, out[i].Buf)
		}
		return (re.scan - before + len(re.rings)) % len(re.rings)
	}
	for range 2 {
		look()
	}
	if got := look(); got != scanIdle {
		t.Errorf("looks at %d rings when nobody says anything, want %d", got, scanIdle)
	}
	for i, s := range say {
		if re.rings[i] != re.hot {
			s()
			break
		}
	}
	most := 0
	for range len(re.rings) {
		most = max(most, look())
	}
	if most != scanRings {
		t.Errorf("looks at %d rings when one has said something, want %d", most, scanRings)
	}
}

// TestShares checks that several peers with full rings have equal shares of a poll.
func TestShares(t *testing.T) {
	const peers, each = 4, 64
	rd, re := openOne(t, fabric.EndpointConfig{})
	for b := range fabric.Buf(each) {
		recv(t, re, b)
	}
	for i := range peers {
		d, e := openOne(t, fabric.EndpointConfig{})
		to := insert(t, d, re)
		d.arena.Bytes(0)[0] = byte(i)
		for range each {
			if _, err := e.Post([]fabric.Send{{To: to, Buf: 0, Len: 100}}); err != nil {
				t.Fatal(err)
			}
		}
		rd.loop.tend()
	}
	var out [each]fabric.Completion
	var got [peers]int
	n, err := re.Poll(out[:])
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		got[rd.arena.Bytes(out[i].Buf)[0]]++
	}
	if want := [peers]int{16, 16, 16, 16}; got != want {
		t.Errorf("a poll for %d has %v of the peers, want %v", each, got, want)
	}
}

// TestDirectoryOfAnother checks the error if the directory of the sockets already exists and
// belongs to another user.
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

// TestDirectoryThatGoes opens sockets while another process removes the directory of the sockets
// whenever the directory is empty, as the last domain of a user does.
func TestDirectoryThatGoes(t *testing.T) {
	dir := socketDir(uint32(os.Geteuid()))
	var over atomic.Bool
	var removes sync.WaitGroup
	removes.Go(func() {
		for !over.Load() {
			_ = unix.Rmdir(dir)
			wait := time.Duration(rand.IntN(60)) * time.Microsecond
			for begun := time.Now(); time.Since(begun) < wait; { // a sleep would be longer
			}
		}
	})
	for range 2000 {
		n, err := newName()
		if err != nil {
			t.Fatal(err)
		}
		var c closers
		fd, err := listen(&n, &c)
		if err != nil {
			t.Error(err)
			break
		}
		unix.Close(fd)
		unlisten(&n)
	}
	over.Store(true)
	removes.Wait()
}
