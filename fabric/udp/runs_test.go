//go:build linux

package udp

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
	"gobtl/internal/testenv"
)

// openAt opens a domain at an address, with buffers for count datagrams of a size.
func openAt(t *testing.T, node string, count, sizeBytes int) (*domain, *endpoint) {
	t.Helper()
	p := New(Options{})
	infos, err := p.GetInfo(fabric.Hints{Node: node})
	if err != nil || len(infos) == 0 {
		t.Fatalf("GetInfo of %s: %d infos, %v", node, len(infos), err)
	}
	d, err := p.Open(infos[0], fabric.DomainConfig{Buffers: count, BufferBytes: sizeBytes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	e, err := d.OpenEndpoint(fabric.EndpointConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return d.(*domain), e.(*endpoint)
}

// bareSocket is a socket that receives coalesced runs, and an endpoint's address for the socket.
func bareSocket(t *testing.T, d *domain, node string) (*socket, fabric.Addr) {
	t.Helper()
	list, err := inet.Locals(node)
	if err != nil || len(list) == 0 {
		t.Fatalf("%s: %v", node, err)
	}
	s, err := openSocket(&list[0], Options{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	to, err := d.Insert(inet.EncodeName(s.name))
	if err != nil {
		t.Fatal(err)
	}
	return s, to
}

// next returns the size of the next message, and the size of its datagrams.
func (s *socket) next(t *testing.T) (sizeBytes, segment int) {
	t.Helper()
	buf, oob := make([]byte, 1<<16), make([]byte, 64)
	n, oobn, _, _, err := unix.Recvmsg(s.fd, buf, oob, unix.MSG_DONTWAIT)
	if err != nil {
		t.Fatalf("receive: %v", err)
	}
	segment = n
	list, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if c.Header.Level == unix.SOL_UDP && c.Header.Type == unix.UDP_GRO {
			segment = int(binary.NativeEndian.Uint32(c.Data))
		}
	}
	return n, segment
}

// TestRunsStayWhole sends batches of datagrams whose sizes come near the bound of a run. Each run
// must arrive as one message, and each message must be as long as permitted.
func TestRunsStayWhole(t *testing.T) {
	const count = 140
	for _, node := range []string{"127.0.0.1", "::1"} {
		for _, size := range []int{500, 1310, 1472, 2113, 4094, 8188, 9356} {
			t.Run(fmt.Sprintf("%s/%d", node, size), func(t *testing.T) {
				d, e := openAt(t, node, count, size)
				s, to := bareSocket(t, d, node)
				sends := make([]fabric.Send, count)
				for i := range sends {
					sends[i] = fabric.Send{To: to, Buf: fabric.Buf(i), Len: uint32(size)}
				}
				if n, err := e.Post(sends); n != count || err != nil {
					t.Fatalf("Post: %d, %v", n, err)
				}
				full := min(e.tx.runs.segments, int(e.tx.runs.bytes)/size)
				for left := count; left > 0; left -= full {
					n, segment := s.next(t)
					if want := min(left, full) * size; n != want || segment != size {
						t.Fatalf("a message of %d bytes in datagrams of %d, want %d bytes, %d left", n, segment,
							want, left)
					}
				}
				if e.counts.gsoSingly > 0 || !e.tx.gso {
					t.Error("runs were sent singly")
				}
			})
		}
	}
}

// TestFewerSegments checks a kernel that accepts fewer datagrams in a message. The larger number is
// tried once, and segmentation stays on.
func TestFewerSegments(t *testing.T) {
	const count, size = 200, 100
	d, e := openAt(t, "127.0.0.1", count, size)
	s, to := bareSocket(t, d, "127.0.0.1")
	e.tx.runs.segments = count // more than any kernel accepts
	sends := make([]fabric.Send, count)
	for i := range sends {
		sends[i] = fabric.Send{To: to, Buf: fabric.Buf(i), Len: size}
	}
	if n, err := e.Post(sends); n != count || err != nil {
		t.Fatalf("Post: %d, %v", n, err)
	}
	got := 0
	for got < count*size {
		n, _ := s.next(t)
		got += n
		if n > runSegmentsOld*size {
			t.Errorf("a message of %d bytes", n)
		}
	}
	if e.tx.runs.segments != runSegmentsOld || !e.tx.gso || e.counts.gsoSingly > 0 ||
		got != count*size {
		t.Errorf("%+v, gso %t, %d runs sent singly, %d bytes arrived", e.tx.runs, e.tx.gso,
			e.counts.gsoSingly, got)
	}
}

// TestDeviceBounds reads the limits of devices in a separate namespace, with limits below and above
// Linux's defaults.
func TestDeviceBounds(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Missing(t, "root, to have a network namespace")
	}
	testenv.Need(t, "ip", "iproute2")
	done := make(chan struct{})
	go func() { // the thread ends with the goroutine, because it cannot leave the namespace
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		for _, tc := range []struct {
			args string
			want runBounds
		}{
			{"gso_max_size 65536", runBounds{65493, runSegmentsMost}},
			{"gso_max_size 30000 gso_max_segs 20", runBounds{30000 - 1 - 14 - 28, 20}},
		} {
			args := "link set dev lo up " + tc.args
			if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
				t.Errorf("ip %s: %v: %s", args, err, out)
				return
			}
			list, err := inet.Locals("127.0.0.1")
			if err != nil || len(list) == 0 {
				t.Errorf("%v, %v", list, err)
				return
			}
			if got := boundsOf(&list[0]); got != tc.want {
				t.Errorf("%s: %+v, want %+v", tc.args, got, tc.want)
			}
		}
	}()
	<-done
}

// TestBoundsIn reads attributes that the devices of this machine do not have.
func TestBoundsIn(t *testing.T) {
	attr := func(kind uint16, v uint32) syscall.NetlinkRouteAttr {
		b := (*[4]byte)(unsafe.Pointer(&v))
		return syscall.NetlinkRouteAttr{Attr: syscall.RtAttr{Type: kind}, Value: b[:]}
	}
	size, segs := uint16(unix.IFLA_GSO_MAX_SIZE), uint16(unix.IFLA_GSO_MAX_SEGS)
	size4 := uint16(unix.IFLA_GSO_IPV4_MAX_SIZE)
	type attrs = []syscall.NetlinkRouteAttr
	for _, tc := range []struct {
		attrs  attrs
		v4, v6 runBounds
	}{
		{nil, runBounds{65493, 128}, runBounds{65473, 128}},
		{attrs{attr(size, 65536), attr(segs, 65535)}, runBounds{65493, 128}, runBounds{65473, 128}},
		{attrs{attr(size, 131072), attr(size4, 65550)}, runBounds{65507, 128}, runBounds{65487, 128}},
		{attrs{attr(size, 131072), attr(size4, 65536)}, runBounds{65493, 128}, runBounds{65487, 128}},
		{attrs{attr(size, 40)}, runBounds{0, 128}, runBounds{0, 128}},
		{attrs{attr(size, 32000), attr(segs, 64)}, runBounds{31957, 64}, runBounds{31937, 64}},
		{
			attrs{{Attr: syscall.RtAttr{Type: size}, Value: []byte{1}}},
			runBounds{65493, 128},
			runBounds{65473, 128},
		},
	} {
		d := boundsIn(tc.attrs)
		if v4, v6 := d.runs(4), d.runs(6); v4 != tc.v4 || v6 != tc.v6 {
			t.Errorf("%v: %+v and %+v, want %+v and %+v", tc.attrs, v4, v6, tc.v4, tc.v6)
		}
	}
}
