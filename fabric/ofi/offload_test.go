//go:build linux && cgo

package ofi

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/fabric/fabrictest"
)

func TestConformanceOffload(t *testing.T) {
	fabrictest.Run(t, fabrictest.Fixture{Name: offloadName, Open: loopback(offloadName)})
}

// offloaded opens an endpoint with offload, and posts the receives 0 to n-1.
func offloaded(t *testing.T, n int) (fabric.Domain, *endpoint) {
	t.Helper()
	d := open(t, offloadName, fabric.DomainConfig{Buffers: 512})
	e := openEndpoint(t, d, fabric.EndpointConfig{}).(*endpoint)
	wantState(t, e, "gso, gro")
	mustRecv(t, e, seqBufs(0, n)...)
	return d, e
}

func wantState(t *testing.T, e *endpoint, want string) {
	t.Helper()
	attrs := e.domain.Info().Attrs
	got := attrs[len(attrs)-1]
	if got.Name != "offload" || !strings.HasPrefix(got.Value, want) {
		t.Errorf("the last attribute is %+v, want offload: %s", got, want)
	}
}

// stranger is a UDP socket that does not belong to libfabric.
func stranger(t *testing.T) (conn *net.UDPConn, name []byte) {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetReadBuffer(1 << 20); err != nil { // for the longest burst
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn, sockIn("127.0.0.1", uint16(conn.LocalAddr().(*net.UDPAddr).Port))
}

func setSegment(t *testing.T, conn *net.UDPConn, sizeBytes int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(err, raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, sizeBytes)
	}))
	if err != nil {
		t.Fatal(err)
	}
}

// text is the content of a datagram, which differs for each key.
func text(key, sizeBytes int) []byte {
	b := make([]byte, sizeBytes)
	for i := range b {
		b[i] = byte(key*31 + i*7 + i>>8)
	}
	return b
}

// TestOffloadOnTheWire checks that peers without offload get the single datagrams, whatever is
// posted in one call.
func TestOffloadOnTheWire(t *testing.T) {
	d, e := offloaded(t, 0)
	conn, name := stranger(t)
	to, arena := insert(t, d, name), d.Arena()
	region := bytes.Repeat(text(99, 256), 8)
	id, err := d.RegisterRegion(region)
	if err != nil {
		t.Fatal(err)
	}
	for _, sizes := range [][]int{
		{1472},
		{1472, 1472, 1472, 5},
		{100, 100, 100, 1472, 1472, 100, 100},
		{8, 8, 8, 8},
		{9, 8, 7, 7, 8, 9, 0, 9, 9, 0, 1472, 1471, 1472},
		slices.Repeat([]int{1472}, 100),
		slices.Repeat([]int{300}, 130),
		slices.Repeat([]int{1024}, 64),
		{1, 1472, 1472},
		{1472, 1, 1, 1, 1472},
	} {
		var sends []fabric.Send
		var want [][]byte
		for i, size := range sizes {
			s := fabric.Send{To: to, Buf: fabric.Buf(i), Len: uint32(size)}
			msg := text(i, size)
			if i%3 == 1 { // the second half comes from a region
				s.Len = uint32(size / 2)
				s.Region, s.RegionOff, s.RegionLen = id, uint64(i), uint32(size-size/2)
				copy(msg[s.Len:], region[i:])
			}
			copy(arena.Bytes(s.Buf), msg[:s.Len])
			sends, want = append(sends, s), append(want, msg)
		}
		mustPost(t, e, sends...)
		buf := make([]byte, 1<<16)
		for i, msg := range want {
			n, err := conn.Read(buf)
			if err != nil || !bytes.Equal(buf[:n], msg) {
				t.Fatalf("sizes %v: datagram %d has %d bytes, %v; want %d", sizes, i, n, err, len(msg))
			}
		}
	}
	wantState(t, e, "gso, gro")
}

// TestOffloadCutsRight checks that the sender's segment size is used, and not the MTU.
func TestOffloadCutsRight(t *testing.T) {
	d, e := offloaded(t, 256)
	arena := d.Arena()
	conn, _ := stranger(t)
	to := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: portOf(t, e)}
	for _, tt := range []struct{ piece, total int }{
		{1472, 44 * 1472},
		{1472, 3*1472 + 1},
		{736, 1472},
		{500, 5007},
		{1, 60},
		{8, 512},
		{1400, 1472},
		{1472, 1472},
		{1472, 0},
		{40, 80},
	} {
		setSegment(t, conn, tt.piece)
		msg := text(tt.piece, tt.total)
		if _, err := conn.WriteToUDP(msg, to); err != nil {
			t.Fatal(err)
		}
		for rest, first := msg, true; first || len(rest) > 0; first = false {
			want := rest[:min(tt.piece, len(rest))]
			rest = rest[len(want):]
			c := poll(t, e)
			if got := arena.Bytes(c.Buf)[:c.Len]; c.Errno != 0 || !bytes.Equal(got, want) {
				t.Fatalf("%+v: a piece of %d bytes, errno %d; want %d", tt, c.Len, c.Errno, len(want))
			}
			mustRecv(t, e, c.Buf)
		}
	}
	wantState(t, e, "gso, gro")
}

func addrOf(t *testing.T, e *endpoint) netip.AddrPort {
	t.Helper()
	ap, ok := e.domain.rules.form.addrPort(e.name)
	if !ok {
		t.Fatalf("%x is no socket address", e.name)
	}
	return ap
}

func portOf(t *testing.T, e *endpoint) int {
	t.Helper()
	return int(addrOf(t, e).Port())
}

// TestOffloadKeepsSurplus checks that datagrams without a posted buffer wait until a buffer is
// posted.
func TestOffloadKeepsSurplus(t *testing.T) {
	d, e := offloaded(t, 3)
	arena := d.Arena()
	conn, _ := stranger(t)
	setSegment(t, conn, 100)
	msg := text(3, 1000)
	to := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: portOf(t, e)}
	if _, err := conn.WriteToUDP(msg, to); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if i >= 3 {
			if got := drain(t, e, 1); len(got) != 0 {
				t.Fatalf("%d completions without a posted buffer", len(got))
			}
			mustRecv(t, e, fabric.Buf(i))
			if err := d.(fabric.Waiter).Wait(-1); err != nil { // must see the waiting datagrams
				t.Fatal(err)
			}
		}
		c := poll(t, e)
		if !bytes.Equal(arena.Bytes(c.Buf)[:c.Len], msg[i*100:][:100]) {
			t.Fatalf("piece %d is wrong", i)
		}
	}
}

// TestOffloadLands checks that the bytes after the head of each datagram go to the landing.
func TestOffloadLands(t *testing.T) {
	d, e := offloaded(t, 64)
	arena := d.Arena()
	self := insert(t, d, e.Name())
	const head, size, count = 40, 1000, 5
	if !e.Caps().Landing {
		t.Fatal("no landing")
	}
	var sends []fabric.Send
	for i := range count {
		s := fabric.Send{To: self, Buf: fabric.Buf(100 + i), Len: size}
		copy(arena.Bytes(s.Buf), text(i, size))
		sends = append(sends, s)
	}
	mem := make([]byte, 3*(size-head)+10) // holds three
	if !e.Land(mem, head) {
		t.Fatal("Land was refused")
	}
	mustPost(t, e, sends...)
	for i := range count {
		c := poll(t, e)
		want, buf := text(i, size), arena.Bytes(c.Buf)
		if i >= 3 {
			if c.Landed != 0 || c.Len != size || !bytes.Equal(buf[:size], want) {
				t.Errorf("datagram %d: %+v", i, c)
			}
			continue
		}
		if c.Len != size || c.Landed != size-head || c.LandedOff != uint32(i*(size-head)) ||
			!bytes.Equal(buf[:head], want[:head]) ||
			!bytes.Equal(mem[c.LandedOff:][:c.Landed], want[head:]) {
			t.Errorf("datagram %d: %+v", i, c)
		}
	}
	if !e.Land(nil, 0) {
		t.Fatal("Land(nil) was refused")
	}
	mustPost(t, e, sends[:1]...)
	if c := poll(t, e); c.Landed != 0 || !bytes.Equal(arena.Bytes(c.Buf)[:size], text(0, size)) {
		t.Errorf("after the landing: %+v", c)
	}
	bare := open(t, udpName, fabric.DomainConfig{Buffers: 4})
	plain := openEndpoint(t, bare, fabric.EndpointConfig{})
	if plain.Caps().Landing || plain.(fabric.Lander).Land(mem, head) {
		t.Error("an endpoint without offload lands")
	}
}

// TestOffloadLandsRunsAlone checks a landing with a single datagram of another length between runs.
// The single datagram stays complete in its buffer, and does not move later landings. A datagram
// that is too long for its buffer is reported.
func TestOffloadLandsRunsAlone(t *testing.T) {
	d, e := offloaded(t, 128)
	arena := d.Arena()
	conn, _ := stranger(t)
	to := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: portOf(t, e)}
	const head, piece, run = 40, 1472, 10
	setSegment(t, conn, piece)
	send := func(sizeBytes int) {
		t.Helper()
		if _, err := conn.WriteToUDP(text(7, sizeBytes), to); err != nil {
			t.Fatal(err)
		}
	}
	out := make([]fabric.Completion, 64)
	recv := func(want int) []fabric.Completion {
		t.Helper()
		n, err := e.Poll(out) // with room for a run
		if n != want || err != nil {
			t.Fatalf("%d datagrams, %v; want %d", n, err, want)
		}
		return out[:n]
	}
	send(run * piece) // after this datagram runs are expected
	recv(run)
	mem := make([]byte, 30*piece)
	if !e.Land(mem, head) {
		t.Fatal("Land was refused")
	}
	send(100)
	if c := recv(1)[0]; c.Landed != 0 || !bytes.Equal(arena.Bytes(c.Buf)[:c.Len], text(7, 100)) {
		t.Errorf("a datagram of 100 bytes: %+v", c)
	}
	send(run * piece)
	for i, c := range recv(run) {
		if c.Landed != piece-head || int(c.LandedOff) != i*(piece-head) {
			t.Errorf("datagram %d of a run: %+v", i, c)
		}
	}
	setSegment(t, conn, 0)
	send(2000)
	if c := recv(1)[0]; c.Landed != 0 || c.Len != 2000 {
		t.Errorf("a datagram of 2000 bytes: %+v", c)
	}
}

// TestOffloadEndsByError checks that offload ends if the kernel refuses a run, and that each
// datagram is then sent alone.
func TestOffloadEndsByError(t *testing.T) {
	d, e := offloaded(t, 0)
	arena := d.Arena()
	conn, name := stranger(t)
	// The kernel refuses offload without checksums (udp_send_skb).
	if err := unix.SetsockoptInt(e.waitFd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1); err != nil {
		t.Fatal(err)
	}
	var sends []fabric.Send
	for i := range 10 {
		sends = append(sends, fabric.Send{To: insert(t, d, name), Buf: fabric.Buf(i), Len: 1000})
		copy(arena.Bytes(fabric.Buf(i)), text(i, 1000))
	}
	mustPost(t, e, sends...)
	buf := make([]byte, 1<<16)
	for i := range sends {
		if n, err := conn.Read(buf); err != nil || !bytes.Equal(buf[:n], text(i, 1000)) {
			t.Fatalf("datagram %d: %d bytes, %v", i, n, err)
		}
	}
	wantState(t, e, "gso ended by: ")
}

// TestOffloadAndUnreachable checks that an unreachable peer does not end offload.
func TestOffloadAndUnreachable(t *testing.T) {
	d, e := offloaded(t, 0)
	away := insert(t, d, sockIn("192.0.2.77", 9)) // the socket is bound to a loopback address
	s := fabric.Send{To: away, Len: 1000}
	if n, err := e.Post([]fabric.Send{s, s, s}); n != 0 || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Post took %d, %v; want EINVAL of the first", n, err)
	}
	wantState(t, e, "gso, gro")
}

// TestOffloadEndsByDoubt checks a truncated control message, which hides the segment size. The
// waiting data is dropped, and the kernel no longer coalesces.
func TestOffloadEndsByDoubt(t *testing.T) {
	d, e := offloaded(t, 8)
	arena := d.Arena()
	conn, _ := stranger(t)
	to := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: portOf(t, e)}
	send := func(msg []byte) {
		t.Helper()
		if _, err := conn.WriteToUDP(msg, to); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.SetsockoptInt(e.waitFd, unix.SOL_SOCKET, unix.SO_TIMESTAMP, 1); err != nil {
		t.Fatal(err)
	}
	setSegment(t, conn, 10)
	send(text(1, 100))
	send(text(2, 50))
	send(text(3, 70))
	c := poll(t, e)
	if c.Errno != int32(syscall.EIO) || c.Op != fabric.OpRecv {
		t.Errorf("the doubtful receive completed as %+v", c)
	}
	if more := drain(t, e, 9); len(more) != 0 {
		t.Errorf("%d datagrams were cut by guess", len(more))
	}
	wantState(t, e, "gso, no gro, 3 receives dropped")
	send(text(4, 25))
	for i := range 3 {
		want := text(4, 25)[i*10 : min(25, i*10+10)]
		if c := poll(t, e); !bytes.Equal(arena.Bytes(c.Buf)[:c.Len], want) {
			t.Errorf("piece %d after the end of coalescing has %d bytes, want %d", i, c.Len, len(want))
		}
	}
}

// TestOffloadDoesNotStart checks that the self-test fails on a descriptor that is not a UDP socket,
// and that the endpoint works.
func TestOffloadDoesNotStart(t *testing.T) {
	d := open(t, udpName, fabric.DomainConfig{Buffers: 64})
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	for _, fd := range []int{-1, pipe[0]} {
		e := openEndpoint(t, d, fabric.EndpointConfig{}).(*endpoint)
		e.startOffload(fd)
		if e.noOffload == "" {
			t.Errorf("offload started on descriptor %d", fd)
		}
		self := insert(t, d, e.Name())
		mustRecv(t, e, 1)
		mustPost(t, e, fabric.Send{To: self, Len: 100}, fabric.Send{To: self, Len: 100})
		mustRecv(t, e, 2)
		for range 2 {
			if c := poll(t, e); c.Len != 100 || c.Errno != 0 {
				t.Errorf("without offload came %+v", c)
			}
		}
	}
	unix.Close(pipe[0])
	unix.Close(pipe[1])
}

// TestOffloadStartsAmongStrangers checks that earlier datagrams from other senders, even empty
// ones, do not prevent offload.
func TestOffloadStartsAmongStrangers(t *testing.T) {
	d := open(t, udpName, fabric.DomainConfig{Buffers: 64})
	e := openEndpoint(t, d, fabric.EndpointConfig{}).(*endpoint)
	conn, _ := stranger(t)
	to := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: portOf(t, e)}
	for _, sizes := range []struct{ piece, total int }{
		{0, 0}, {0, 1}, {0, e.Caps().MTUBytes}, {100, 1000}, {0, 0}, {e.Caps().MTUBytes, 30_000},
	} {
		setSegment(t, conn, sizes.piece)
		if _, err := conn.WriteToUDP(text(5, sizes.total), to); err != nil {
			t.Fatal(err)
		}
	}
	e.startOffload(e.waitFd)
	if e.noOffload != "" || !e.Caps().Landing {
		t.Fatalf("no offload: %s", e.noOffload)
	}
	self := insert(t, d, e.Name())
	mustRecv(t, e, 1, 2)
	mustPost(t, e, fabric.Send{To: self, Len: 100}, fabric.Send{To: self, Len: 100})
	for range 2 {
		if c := poll(t, e); c.Len != 100 || c.Errno != 0 {
			t.Errorf("with offload came %+v", c)
		}
	}
}

// TestOffloadRegionsAreFree checks that FreeRegions is true, which means that each send may
// register its memory.
func TestOffloadRegionsAreFree(t *testing.T) {
	d, e := offloaded(t, 0)
	if !e.Caps().FreeRegions {
		t.Fatal("FreeRegions is false")
	}
	mem := make([]byte, 1<<16)
	land := make([]byte, 1<<16)
	allocs := testing.AllocsPerRun(200, func() {
		id, err := d.RegisterRegion(mem)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.DeregisterRegion(id); err != nil {
			t.Fatal(err)
		}
		if !e.Land(land, 40) {
			t.Fatal("Land was refused")
		}
	})
	if allocs != 0 {
		t.Errorf("registering and landing allocate %v times", allocs)
	}
}
