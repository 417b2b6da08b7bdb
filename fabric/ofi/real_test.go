//go:build linux && cgo

package ofi

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobtl/fabric"
)

// TestOnDevice checks that the payload depends on the device and the address family, and not on the
// provider.
func TestOnDevice(t *testing.T) {
	l := limits{maxMsgBytes: 1472, injectBytes: 1472}
	for _, tt := range []struct {
		mtu  int
		form nameForm
		want int
	}{
		{1500, formSockIn, 1472},
		{1500, formSockIn6, 1452},
		{1280, formSockIn6, 1232},
		{1280, formSockIn, 1252},
		{9000, formSockIn, 8972},
		{9000, formSockIn6, 8952},
		{65536, formSockIn, 8972},
		{20, formSockIn, 1},
	} {
		got := l.onDevice(tt.mtu, tt.form)
		if got.mtuBytes() != tt.want || got.inject() != tt.want {
			t.Errorf("MTU %d, form %d: %d bytes, %d injected, want %d", tt.mtu, tt.form, got.mtuBytes(),
				got.inject(), tt.want)
		}
	}
}

// wireVariable makes a process of the test binary send the largest possible datagram.
const wireVariable = "GOBTL_OFI_WIRE"

// TestNoFragments sends the largest datagram of each device, in a separate namespace, and counts
// the fragments that the kernel makes.
func TestNoFragments(t *testing.T) {
	if os.Getenv(wireVariable) != "" {
		sendWhole(t)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, for a network namespace")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestNoFragments$", "-test.v")
	cmd.Env = append(os.Environ(), wireVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func sendWhole(t *testing.T) {
	const script = `ip link set lo up
ip link add v0 mtu 9000 type veth peer name v1 mtu 9000
ip link set v0 up; ip link set v1 up
ip addr add 10.9.0.1/24 dev v0; ip addr add fd00:9::1/64 dev v0 nodad
ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev v0 nud permanent
ip neigh add fd00:9::2 lladdr 02:00:00:00:00:02 dev v0 nud permanent`
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, tt := range []struct {
		mtu      string
		from, to string
		want     int
	}{
		{"9000", "10.9.0.1", "10.9.0.2", 8972},
		{"9000", "fd00:9::1", "fd00:9::2", 8952},
		{"1500", "10.9.0.1", "10.9.0.2", 1472},
		{"1500", "fd00:9::1", "fd00:9::2", 1452},
		{"1280", "10.9.0.1", "10.9.0.2", 1252},
		{"1280", "fd00:9::1", "fd00:9::2", 1232},
	} {
		out, err := exec.Command("ip", "link", "set", "v0", "mtu", tt.mtu).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		info := fabric.Info{Provider: "ofi/udp", Node: tt.from}
		d, err := fabric.Open(info, fabric.DomainConfig{Buffers: 4})
		if err != nil {
			t.Fatal(err)
		}
		e := openEndpoint(t, d, fabric.EndpointConfig{})
		name := sockIn(tt.to, 9)
		if netip.MustParseAddr(tt.to).Is6() {
			name = sockIn6(tt.to, 9, 0, 0)
		}
		before := fragments(t)
		mustPost(t, e, fabric.Send{To: insert(t, d, name), Len: uint32(e.Caps().MTUBytes)})
		if got := e.Caps().MTUBytes; got != tt.want || fragments(t) != before {
			t.Errorf("MTU %s from %s: %d bytes, want %d, and no fragment: %s, before %s", tt.mtu, tt.from,
				got, tt.want, fragments(t), before)
		}
		d.Close()
	}
}

// fragments is the kernel's count of fragments.
func fragments(t *testing.T) string {
	t.Helper()
	all, err := exec.Command("sh", "-c",
		"awk '/^Ip6Frag/ {print $2}' /proc/net/snmp6; awk '/^Ip:/ {print $20}' /proc/net/snmp").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(all)), " ")
}

// TestNode checks that a name stands for all its addresses, and that an unknown name is an error.
func TestNode(t *testing.T) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "ofi/udp", Node: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		ip, err := netip.ParseAddr(info.Node)
		if err != nil || !ip.IsLoopback() || info.Src != info.Node {
			t.Errorf("localhost became the node %q at %q", info.Node, info.Src)
		}
	}
	want, err := numeric("localhost")
	if err != nil || len(infos) != len(want) {
		t.Errorf("%d infos of localhost, which is %v, %v", len(infos), want, err)
	}
	_, err = fabric.GetInfo(fabric.Hints{Provider: "ofi/udp", Node: "nobody.invalid"})
	if !errors.Is(err, fabric.ErrNoProvider) || !strings.Contains(err.Error(), "nobody.invalid") {
		t.Errorf("of a name that is not known: %v", err)
	}
	six := entry{form: formSockIn6, src: sockIn6("::1", 0, 0, 0)}
	if six.isAt("127.0.0.1") || !six.isAt("::1") {
		t.Error("an answer of the other family is taken for the one asked for")
	}
}

// TestFit checks that providers that fail the suites are not offered.
func TestFit(t *testing.T) {
	for prov, want := range map[string]bool{
		"sm2": false, "lnx": false, "shm+tcp;ofi_rxm:lnx": false, "sm2;ofi_rxm": false,
		"shm": true, "udp": true, "tcp;ofi_rxm": true, "verbs": true, "psm2": true,
	} {
		if fit(prov) != want {
			t.Errorf("fit(%q) = %v", prov, !want)
		}
	}
}

// TestShmFileGoes checks that the file of a closed endpoint is removed, though its memory stays
// while other domains of this process are open.
func TestShmFileGoes(t *testing.T) {
	other := open(t, "ofi/shm", fabric.DomainConfig{Buffers: 1})
	openEndpoint(t, other, fabric.EndpointConfig{})
	d, err := fabric.Open(fabric.Info{Provider: "ofi/shm"}, fabric.DomainConfig{Buffers: 1})
	if err != nil {
		t.Fatal(err)
	}
	e := openEndpoint(t, d, fabric.EndpointConfig{})
	file := shmFolder + "/" + strings.TrimRight(strings.TrimPrefix(string(e.Name()), shmMark), "\x00")
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("the file of an open endpoint: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of a closed endpoint: %v", err)
	}
}

// TestLongMessage sends a message that is longer than the receiver's buffers. The length or an
// error must show the truncation, on each provider that works after that.
func TestLongMessage(t *testing.T) {
	for _, name := range []string{"ofi/udp", "ofi/udp;ofi_rxd", "ofi/sockets"} {
		t.Run(name, func(t *testing.T) {
			big := open(t, name, fabric.DomainConfig{Buffers: 4})
			small := openShort(t, name)
			from := openEndpoint(t, big, fabric.EndpointConfig{})
			to := openEndpoint(t, small, fabric.EndpointConfig{})
			mustRecv(t, to, 0, 1)
			addr := insert(t, big, to.Name())
			var out [4]fabric.Completion
			for posted, end := 0, time.Now().Add(patience); ; {
				if time.Now().After(end) {
					t.Fatal("nothing arrived")
				}
				if posted == 0 {
					n, err := from.Post([]fabric.Send{{To: addr, Len: 1000}})
					if err != nil && !errors.Is(err, fabric.ErrAgain) {
						t.Fatal(err)
					}
					posted = n
				}
				_, _ = from.Poll(out[:])
				n, err := to.Poll(out[:])
				if err != nil {
					t.Logf("a poll says: %v", err)
					return
				}
				if n == 0 {
					continue
				}
				if c := out[0]; c.Errno == 0 && c.Len <= shortBytes {
					t.Errorf("1000 bytes in a buffer of %d: %+v", shortBytes, c)
				}
				return
			}
		})
	}
}

const shortBytes = 100

// openShort opens a domain in the form of a provider with short messages.
func openShort(t *testing.T, name string) fabric.Domain {
	t.Helper()
	v, _ := variantOf(name)
	r := request{
		hints: fabric.Hints{Provider: name, Node: "127.0.0.1"}, variant: v,
		rdm: strings.Contains(name, layerMark),
	}
	l, err := query(r)
	defer l.free()
	if err != nil || len(l.entries) == 0 {
		t.Fatalf("%s: %v", name, err)
	}
	e := &l.entries[0]
	e.limits.maxMsgBytes = shortBytes
	e.limits.injectBytes = min(e.limits.injectBytes, shortBytes)
	d, err := openDomain(e, nil, fabric.DomainConfig{Buffers: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}
