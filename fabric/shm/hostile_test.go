//go:build linux

package shm

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
)

func openOne(t *testing.T, cfg fabric.EndpointConfig) (*domain, *endpoint) {
	t.Helper()
	d := openAny(t, fabric.DomainConfig{Buffers: 512})
	e, err := d.OpenEndpoint(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, e.(*endpoint)
}

func insert(t *testing.T, d *domain, e *endpoint) fabric.Addr {
	t.Helper()
	a, err := d.Insert(e.Name())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func recv(t *testing.T, e *endpoint, bufs ...fabric.Buf) {
	t.Helper()
	if _, err := e.Recv(bufs); err != nil {
		t.Fatal(err)
	}
}

// connectRaw connects to a domain and sends nothing. The test must not close the descriptor,
// because connectRaw closes it at the end of the test. A second close would hit a reused number.
func connectRaw(t *testing.T, d *domain) (fd int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: d.name.socketPath()})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Close(fd); err != nil {
			t.Errorf("the socket was closed before: %v", err)
		}
	})
	return fd
}

// dial calls a domain and passes a ring to the domain.
func dial(to *name, memfd int) (fd int, err error) {
	if fd, err = call(to); err != nil {
		return -1, err
	}
	if err = hello(fd, to, memfd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// waits counts the Waits of a domain within a time, with a poll of e before each Wait.
func waits(t *testing.T, d *domain, e *endpoint, while time.Duration) (n int) {
	t.Helper()
	var out [4]fabric.Completion
	for end := time.Now().Add(while); time.Now().Before(end); n++ {
		if _, err := e.Poll(out[:]); err != nil {
			t.Fatal(err)
		}
		if err := d.Wait(time.Until(end)); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// TestOneAtATime checks that a receiver that polls for one completion at a time also receives from
// peers that send little.
func TestOneAtATime(t *testing.T) {
	rd, re := openOne(t, fabric.EndpointConfig{})
	recv(t, re, 0, 1, 2, 3)
	var drain [64]fabric.Completion
	var senders [2]func()
	for i := range senders {
		d, e := openOne(t, fabric.EndpointConfig{})
		to := insert(t, d, re)
		d.arena.Bytes(0)[0] = byte(i)
		senders[i] = func() {
			if _, err := e.Post([]fabric.Send{{To: to, Buf: 0, Len: 100}}); err != nil {
				t.Fatal(err)
			}
			_, _ = e.Poll(drain[:])
		}
	}
	var got [2]int
	var out [1]fabric.Completion
	poll := func() {
		if n, _ := re.Poll(out[:]); n > 0 {
			got[rd.arena.Bytes(out[0].Buf)[0]]++
			recv(t, re, out[0].Buf)
		}
	}
	for range 3 {
		senders[0]()
	}
	rd.loop.tend()
	poll()
	senders[1]()
	rd.loop.tend()
	for range 100 {
		senders[0]()
		poll()
	}
	if got[0] < 90 || got[1] != 1 {
		t.Errorf("%d of the busy sender, %d of the other one; want nearly 100, 1", got[0], got[1])
	}
}

// TestRemoveCancels checks that sends that wait for a peer that does not read take at most as many
// places as remain free. Removing the peer's address cancels these sends.
func TestRemoveCancels(t *testing.T) {
	_, dead := openOne(t, fabric.EndpointConfig{})
	rd, live := openOne(t, fabric.EndpointConfig{})
	recv(t, live, 0, 1)
	sd, se := openOne(t, fabric.EndpointConfig{TxDepth: 256})
	a, b := insert(t, sd, dead), insert(t, sd, live)
	var out [512]fabric.Completion
	canceled, posted, sent := 0, 0, 0
	poll := func() {
		n, err := se.Poll(out[:])
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range out[:n] {
			switch unix.Errno(c.Errno) {
			case 0:
				sent++
			case unix.ECANCELED:
				canceled++
			default:
				t.Errorf("a send: %v", unix.Errno(c.Errno))
			}
		}
	}
	for range 1000 {
		n, _ := se.Post([]fabric.Send{{To: a, Buf: 1, Len: 60000}})
		posted += n
		poll()
	}
	const most = (256 - 256/readersShare) / 2
	if se.unsent != most {
		t.Fatalf("%d sends wait, want half of TxDepth without what all leave: %d", se.unsent, most)
	}
	if n, err := se.Post([]fabric.Send{{To: b, Buf: 1, Len: 1000}}); n != 1 {
		t.Fatalf("one peer does not read, and to another nothing can be sent: %v", err)
	}
	posted++
	poll()
	if err := sd.Remove(a); err != nil {
		t.Fatal(err)
	}
	poll()
	if canceled != most || sent+canceled != posted || se.unsent != 0 {
		t.Errorf("%d sends: %d sent, %d canceled, %d wait", posted, sent, canceled, se.unsent)
	}
	if sd.loop.outLinks != 1 || sd.ringBytes != ringBytesMax {
		t.Errorf("%d links, rings of %d bytes stay", sd.loop.outLinks, sd.ringBytes)
	}
	if n, err := se.Post([]fabric.Send{{To: b, Buf: 1, Len: 10}}); n != 1 {
		t.Fatal(err)
	}
	rd.loop.tend()
	if n, _ := live.Poll(out[:]); n != 2 {
		t.Error("nothing comes to another peer")
	}
}

// TestSilentSockets checks that silent connections take no places from other peers or from the
// domain's own sends.
func TestSilentSockets(t *testing.T) {
	rd, re := openOne(t, fabric.EndpointConfig{})
	recv(t, re, 0)
	for range linksPerProcess + silentMax {
		connectRaw(t, rd)
		rd.loop.tend()
	}
	if n := len(rd.loop.silent); n != silentMax || rd.loop.inLinks != n {
		t.Fatalf("%d links, %d of them silent, want %d", rd.loop.inLinks, n, silentMax)
	}
	sd, se := openOne(t, fabric.EndpointConfig{})
	if n, err := se.Post([]fabric.Send{{To: insert(t, sd, re), Buf: 0, Len: 100}}); n != 1 {
		t.Fatal(err)
	}
	rd.loop.tend()
	var out [4]fabric.Completion
	if n, _ := re.Poll(out[:]); n != 1 || out[0].Errno != 0 {
		t.Errorf("%d datagrams of an honest peer came, want 1", n)
	}
	rd.loop.inLinks += linksMax // simulates many incoming links
	defer func() { rd.loop.inLinks -= linksMax }()
	if n, err := re.Post([]fabric.Send{{To: insert(t, rd, se), Buf: 1, Len: 1000}}); n != 1 {
		t.Fatal(err)
	}
	if n, _ := re.Poll(out[:]); n != 1 || out[0].Errno != 0 {
		t.Errorf("an own send ends with %v", unix.Errno(out[0].Errno))
	}
}

// TestMemoryFromPeers checks peers whose rings have used up the permitted memory. A further peer's
// large ring is refused, and its small ring is accepted. A closed link makes its memory available
// again.
func TestMemoryFromPeers(t *testing.T) {
	rd, re := openOne(t, fabric.EndpointConfig{})
	recv(t, re, 0)
	sd, se := openOne(t, fabric.EndpointConfig{})
	to := insert(t, sd, re)
	rd.takenBytes += takenBudget
	refused := 0
	var out [4]fabric.Completion
	await(t, "a datagram by a small ring", func() bool {
		_, err := se.Post([]fabric.Send{{To: to, Buf: 0, Len: 1000}})
		if err != nil {
			t.Fatal(err)
		}
		rd.loop.tend()
		n, _ := se.Poll(out[:])
		for _, c := range out[:n] {
			if c.Errno == int32(unix.ECONNREFUSED) {
				refused++
			}
		}
		n, _ = re.Poll(out[:])
		return n == 1 && out[0].Op == fabric.OpRecv
	})
	if refused == 0 {
		t.Error("nothing was refused: the test shows nothing")
	}
	if got := rd.takenBytes - takenBudget; got != ringBytesMin {
		t.Errorf("a ring of %d bytes was taken, want %d", got, ringBytesMin)
	}
	rd.takenBytes -= takenBudget
	recv(t, re, 1)
	if err := se.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "the ring to be given back", func() bool {
		rd.loop.tend()
		_, _ = re.Poll(out[:])
		return rd.takenBytes == 0
	})
	const one, other = 7, 8
	rd.loop.bytesOf[one] = takenBudget / 2
	if got := rd.takesBytes(one); got != ringBytesMin {
		t.Errorf("takes %d bytes of a process that has half of all, want %d", got, ringBytesMin)
	}
	if got := rd.takesBytes(other); got != ringBytesMax {
		t.Errorf("takes %d bytes, want %d", got, ringBytesMax)
	}
	if got := rd.loop.bytesOf[int32(os.Getpid())]; got != 0 {
		t.Errorf("%d bytes of a process without rings", got)
	}
}

// TestBusyPeer checks that a peer with a full connection queue is tried again after pauses, and
// costs no memory until then.
func TestBusyPeer(t *testing.T) {
	rd, re := openOne(t, fabric.EndpointConfig{})
	recv(t, re, 0)
	for range backlog + 1 {
		connectRaw(t, rd)
	}
	sd, se := openOne(t, fabric.EndpointConfig{})
	if n, err := se.Post([]fabric.Send{{To: insert(t, sd, re), Buf: 0, Len: 1000}}); n != 1 {
		t.Fatal(err)
	}
	if se.unsent != 1 {
		t.Fatal("the peer is not busy: the test shows nothing")
	}
	if se.stalled[0].ring.mem != nil {
		t.Error("memory was made for a peer that is not there yet")
	}
	if n := waits(t, sd, se, 200*time.Millisecond); n > 50 {
		t.Errorf("%d waits in 200 ms", n)
	}
	if l := se.stalled[0]; l.tries < 2 {
		t.Errorf("not tried again: %d tries", l.tries)
	}
	for range 2 * backlog {
		rd.loop.tend()
	}
	await(t, "the peer to be tried again", func() bool {
		var out [4]fabric.Completion
		n, _ := se.Poll(out[:])
		return n == 1 && out[0].Errno == 0
	})
	rd.loop.tend()
	var out [4]fabric.Completion
	if n, _ := re.Poll(out[:]); n != 1 {
		t.Error("it does not come")
	}
}

// TestNoDescriptors checks a process without descriptors. The process sleeps although a peer waits
// to connect, and accepts the peer later.
func TestNoDescriptors(t *testing.T) {
	rd, re := openOne(t, fabric.EndpointConfig{})
	connectRaw(t, rd)
	undo := limitDescriptors(t, 3)
	n := waits(t, rd, re, 200*time.Millisecond)
	undo()
	if n > 50 {
		t.Errorf("%d waits in 200 ms", n)
	}
	if rd.loop.inLinks != 0 || rd.loop.deaf == 0 {
		t.Fatal("it was let in: the test shows nothing")
	}
	for range deafTends + 1 {
		rd.loop.tend()
	}
	if rd.loop.inLinks != 1 || rd.loop.deaf != 0 {
		t.Errorf("%d let in when there are descriptors, want 1", rd.loop.inLinks)
	}
}

// TestSweep checks that opening a domain removes sockets of owners that are gone for a long time.
// Sockets that were seen alive a moment ago are not checked.
func TestSweep(t *testing.T) {
	rd, _ := openOne(t, fabric.EndpointConfig{})
	dead := func() string {
		n, err := newName()
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrUnix{Name: n.socketPath()})
		}
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		t.Cleanup(func() { _ = os.Remove(n.socketPath()) })
		return n.socketPath()
	}
	knocked := func() bool {
		n, err := unix.EpollWait(rd.loop.epoll, rd.loop.events[:], 0)
		if err != nil {
			t.Fatal(err)
		}
		rd.loop.tend()
		return n > 0
	}
	look := func() {
		dir, err := openDir(rd.name.uid)
		if err != nil {
			t.Fatal(err)
		}
		sweep(dir, &closers{})
		unix.Close(dir)
	}
	old, young := dead(), dead()
	first := filepath.Join(filepath.Dir(old), ".first") // of an owner that died before listening
	if err := os.Rename(dead(), first); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	for _, path := range []string{old, first} {
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
		await(t, "the old socket to be removed", func() bool {
			look()
			_, err := os.Stat(path)
			return os.IsNotExist(err)
		})
	}
	if _, err := os.Stat(young); err != nil {
		t.Error("a socket that was made a moment ago is removed:", err)
	}
	if knocked() {
		t.Error("a new domain is woken")
	}
	if err := os.Chtimes(rd.name.socketPath(), long, long); err != nil {
		t.Fatal(err)
	}
	await(t, "an old domain to be looked at", func() bool {
		look()
		return knocked()
	})
	for range 100 {
		look()
	}
	if knocked() {
		t.Error("a domain that was seen alive is woken again")
	}
}

// TestRefusedPeer checks an endpoint that refuses rings. A reliable provider must not go on
// completing sends to the endpoint, and must not make a ring for each send. The provider tries
// again now and then.
func TestRefusedPeer(t *testing.T) {
	rd, re := openOne(t, fabric.EndpointConfig{})
	if err := re.Close(); err != nil {
		t.Fatal(err)
	}
	sd, se := openOne(t, fabric.EndpointConfig{})
	to := insert(t, sd, re)
	var out [64]fabric.Completion
	good, refused := 0, 0
	wantGood, wantRefused := 0, 0
	for i := range refusedSendsLog2 + 3 {
		wantGood++
		wantRefused += refusedSends << min(i, refusedSendsLog2)
	}
	for range wantGood + wantRefused {
		if n, err := se.Post([]fabric.Send{{To: to, Buf: 0, Len: 1000}}); n != 1 {
			t.Fatal(err)
		}
		for range 4 { // looks at the hello, the end, and the check whether the owner is dead
			rd.loop.tend()
			sd.loop.tend()
		}
		n, err := se.Poll(out[:])
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range out[:n] {
			switch unix.Errno(c.Errno) {
			case 0:
				good++
			case unix.ECONNREFUSED:
				refused++
			default:
				t.Errorf("a send: %v", unix.Errno(c.Errno))
			}
		}
	}
	if good != wantGood || refused != wantRefused {
		t.Errorf("%d sends complete, %d are refused; want %d, %d", good, refused, wantGood,
			wantRefused)
	}
}

// TestTakenPeer checks that a peer that accepted the ring and then ended does not count as a
// refusing peer.
func TestTakenPeer(t *testing.T) {
	rd, re := openOne(t, fabric.EndpointConfig{})
	sd, se := openOne(t, fabric.EndpointConfig{})
	if n, err := se.Post([]fabric.Send{{To: insert(t, sd, re), Buf: 0, Len: 10}}); n != 1 {
		t.Fatal(err)
	}
	rd.loop.tend()
	if err := re.Close(); err != nil {
		t.Fatal(err)
	}
	sd.loop.tend()
	if l := sd.peers.peers[0].links[0]; l.fd >= 0 || !l.taken || l.refused > 0 {
		t.Errorf("descriptor %d, taken: %v, %d sends refused", l.fd, l.taken, l.refused)
	}
}

// TestInjectedWaits checks sends that are complete with Post although the ring had no room. The
// datagrams arrive complete and in order, and the sender may reuse its buffer.
func TestInjectedWaits(t *testing.T) {
	rd, re := openOne(t, fabric.EndpointConfig{})
	sd, se := openOne(t, fabric.EndpointConfig{TxDepth: 64})
	to := insert(t, sd, re)
	region, err := sd.RegisterRegion([]byte("from a region"))
	if err != nil {
		t.Fatal(err)
	}
	var out [16]fabric.Completion
	filled := 0
	for se.unsent == 0 {
		if _, err := se.Post([]fabric.Send{{To: to, Buf: 1, Len: 60000}}); err != nil {
			t.Fatal(err)
		}
		filled++
		_, _ = se.Poll(out[:])
	}
	var want []string
	for i := range 20 {
		mem := sd.arena.Bytes(2)
		n := copy(mem, fmt.Sprintf("number %d ", i))
		s := fabric.Send{To: to, Buf: 2, Len: uint32(n)}
		text := string(mem[:n])
		if i%2 == 1 {
			s.Region, s.RegionOff, s.RegionLen = region, 5, 8
			text += "a region"
		}
		if _, err := se.Post([]fabric.Send{s}); err != nil {
			t.Fatal(err)
		}
		clear(mem[:n])
		want = append(want, text)
	}
	if err := sd.DeregisterRegion(region); err != nil {
		t.Fatal(err)
	}
	if se.unsent != 21 {
		t.Fatalf("%d sends wait, want 21", se.unsent)
	}
	recv(t, re, 0)
	for got := 0; got < filled+len(want); {
		n, err := re.Poll(out[:1])
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 && got >= filled {
			text := string(rd.arena.Bytes(out[0].Buf)[:out[0].Len])
			if text != want[got-filled] {
				t.Fatalf("%q, want %q", text, want[got-filled])
			}
		}
		if n == 1 {
			got++
			recv(t, re, 0)
		} else {
			rd.loop.tend()
		}
		_, _ = se.Poll(out[:])
	}
}

// TestInjectedIsLost checks that the next Post reports the loss of a send that was complete with
// Post.
func TestInjectedIsLost(t *testing.T) {
	rd, re := openOne(t, fabric.EndpointConfig{})
	sd, se := openOne(t, fabric.EndpointConfig{TxDepth: 64})
	to := insert(t, sd, re)
	var out [16]fabric.Completion
	for se.unsent < 10 {
		n := uint32(60000)
		if se.unsent > 0 {
			n = 100
		}
		if _, err := se.Post([]fabric.Send{{To: to, Buf: 1, Len: n}}); err != nil {
			t.Fatal(err)
		}
		_, _ = se.Poll(out[:])
	}
	rd.loop.tend()
	if err := rd.Close(); err != nil {
		t.Fatal(err)
	}
	sd.loop.tend()
	_, _ = se.Poll(out[:])
	if n, err := se.Post([]fabric.Send{{To: to, Buf: 1, Len: 100}}); n != 0 || err == nil {
		t.Errorf("Post took %d, %v: it should tell that the ones before are lost", n, err)
	}
}
