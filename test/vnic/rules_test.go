//go:build linux

package vnic

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"gobtl/test/netns"
	"gobtl/vnic"
)

// rawFrame makes a frame with a mark in it; tag below 0 is none.
func rawFrame(dst, src vnic.MAC, tag int, mark string) []byte {
	f := append(dst.Bytes(), src.Bytes()...)
	if tag >= 0 {
		f = be.AppendUint16(f, 0x8100)
		f = be.AppendUint16(f, uint16(tag))
	}
	f = be.AppendUint16(f, 0x88B6)
	f = append(f, mark...)
	return append(f, make([]byte, 100)...)
}

func (l *lab) mac(host string, port int) vnic.MAC {
	l.t.Helper()
	m, err := vnic.ParseMAC(l.port(host, port).MAC)
	if err != nil {
		l.t.Fatal(err)
	}
	return m
}

// TestPriorities: each priority of VLAN 100, and of VLAN 0, has its service class on the wire, and
// the tag arrives as it was.
func TestPriorities(t *testing.T) {
	l := newLab(t, 1700)
	l.up(blue("pcp_to_sc = [10, 11, 12, 13, 14, 15, 16, 17]\n"+
		"pcp_to_sc_group = [20, 21, 22, 23, 24, 25, 26, 27]\nsc = 5", "a", "b", "c"))
	a, b := l.mac("a", 1), l.mac("b", 1)
	var lock sync.Mutex
	classes, arrived := map[string]uint8{}, map[string]uint16{}
	stopWire := watch(t, l.hosts["b"], "eth0", func(f []byte) {
		packets(f, func(h vnic.Header, frame []byte, _ error) {
			if i := bytes.Index(frame, []byte("mark-")); i > 0 {
				lock.Lock()
				classes[string(frame[i:i+9])] = h.SC
				lock.Unlock()
			}
		})
	})
	stopPort := watch(t, l.hosts["b"], "vnic1", func(f []byte) {
		if i := bytes.Index(f, []byte("mark-")); i > 0 && be.Uint16(f[12:]) == 0x8100 {
			lock.Lock()
			arrived[string(f[i:i+9])] = be.Uint16(f[14:])
			lock.Unlock()
		}
	})
	wantClass, wantTag := map[string]uint8{}, map[string]uint16{}
	for pcp := range 8 {
		for _, vid := range []int{100, 0} {
			for _, to := range []vnic.MAC{b, vnic.Broadcast} {
				mark := fmt.Sprintf("mark-%d%03d", pcp, vid)
				class := uint8(10 + pcp)
				if to.Group() {
					mark = strings.Replace(mark, "mark-", "mark-", 1)[:6] + fmt.Sprintf("g%02d", vid%100+vid/100)
					class += 10
				}
				send(t, l.hosts["a"], "vnic1", rawFrame(to, a, pcp<<13|vid, mark))
				wantClass[mark], wantTag[mark] = class, uint16(pcp<<13|vid)
			}
		}
	}
	send(t, l.hosts["a"], "vnic1", rawFrame(b, a, -1, "mark-none"))
	wantClass["mark-none"] = 5
	l.eventually("all frames have arrived", func() bool {
		lock.Lock()
		defer lock.Unlock()
		return len(classes) >= len(wantClass) && len(arrived) >= len(wantTag)
	})
	stopWire()
	stopPort()
	if fmt.Sprint(classes) != fmt.Sprint(wantClass) {
		t.Errorf("service classes %v\nwant %v", classes, wantClass)
	}
	if fmt.Sprint(arrived) != fmt.Sprint(wantTag) {
		t.Errorf("tags %v\nwant %v", arrived, wantTag)
	}
	if c := l.counters("a", 1); c["tx_vlan"] != 32 {
		t.Errorf("tx_vlan %d", c["tx_vlan"])
	}
}

// TestIsolation: switches 1 and 257, equal in their low eight bits, with the same addresses on
// both, never hear each other.
func TestIsolation(t *testing.T) {
	l := newLab(t, 1700)
	same := func(host string) string {
		return fmt.Sprintf("[[switch.port]]\nhost = %q\nmac = \"02:00:00:00:00:99\"\n", host)
	}
	keys := "flood = true\nlearning = true"
	l.write(virtual("one", 1, keys, "c") + same("a") + virtual("other", 257, keys, "c") + same("b"))
	l.manager()
	for _, h := range names[:3] {
		l.agent(h)
	}
	for _, h := range names[:3] {
		l.settled(h)
	}
	for _, h := range names[:2] {
		l.hosts[h].IP("addr add 10.88.0.1/24 dev vnic1", "link set vnic1 up")
		l.forwarding(h, 1)
	}
	// Both hosts have the same addresses, so what they send is told apart by a mark, and by the
	// address that they ask for.
	targets := map[string]byte{"a": 103, "b": 104}
	type place struct{ dev, from string }
	heard := map[place]*atomic.Int64{}
	for _, dev := range []string{"vnic1", "vnic2"} {
		l.hosts["c"].IP("link set " + dev + " up")
		for from, target := range targets {
			n := new(atomic.Int64)
			heard[place{dev, from}] = n
			watch(t, l.hosts["c"], dev, func(f []byte) {
				arp := len(f) >= 42 && be.Uint16(f[12:]) == 0x0806
				if bytes.Contains(f, []byte("isolation-"+from)) || arp && f[41] == target {
					n.Add(1)
				}
			})
		}
	}
	l.forwarding("c", 1)
	l.forwarding("c", 2)
	for from, dev := range map[string]string{"a": "vnic1", "b": "vnic2"} {
		other := map[string]string{"vnic1": "vnic2", "vnic2": "vnic1"}[dev]
		for _, dst := range []vnic.MAC{vnic.Broadcast, 0x01005E000005, 0x0000AA000001} {
			send(t, l.hosts[from], "vnic1", rawFrame(dst, 0x020000000099, -1, "isolation-"+from))
		}
		_, _ = l.try(from, "arping", "-c", "2", "-w", "1", "-I", "vnic1",
			fmt.Sprintf("10.88.0.%d", targets[from])) // nobody is there
		l.eventually("the own switch hears "+from, func() bool {
			return heard[place{dev, from}].Load() >= 4
		})
		if n := heard[place{other, from}].Load(); n != 0 {
			t.Errorf("%d frames of %s are heard on the other switch", n, from)
		}
	}
	// Both have learned the same address, each on its own switch at its own host.
	var learned []struct {
		Port int
		MAC  string
		LID  int
	}
	l.show("c", "macs", &learned)
	at := map[int]int{}
	for _, e := range learned {
		if e.MAC == "02:00:00:00:00:99" {
			at[e.Port] = e.LID
		}
	}
	if at[1] != 1 || at[2] != 2 {
		t.Errorf("the address is at %v, want port 1: 1, port 2: 2", at)
	}
}

// TestMove: while iperf3 runs the manager moves an address from b to c, then restarts, then takes
// c's port away. The stream goes on; the digest reads back; the deleted port is silent.
func TestMove(t *testing.T) {
	l := newLab(t, 1700)
	row := func(host string) string {
		return fmt.Sprintf("[[switch.mac]]\nmac = \"00:aa:bb:cc:dd:ee\"\nhost = %q\n", host)
	}
	l.up(blue("", "a", "b", "c") + row("b"))
	heard := map[string]*atomic.Int64{"b": {}, "c": {}}
	for h, n := range heard {
		watch(t, l.hosts[h], "vnic1", func(f []byte) {
			if bytes.Contains(f, []byte("moving")) {
				n.Add(1)
			}
		})
	}
	l.iperfServer()
	client := l.hosts["a"].Command("iperf3", "-c", "10.88.0.2", "-J", "-t", "4")
	var out bytes.Buffer
	client.Stdout = &out
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	probe := func(want string) {
		t.Helper()
		before := heard[want].Load()
		l.eventually("a frame to the address arrives at "+want, func() bool {
			send(t, l.hosts["a"], "vnic1", rawFrame(0x00AABBCCDDEE, l.mac("a", 1), -1, "moving"))
			time.Sleep(10 * time.Millisecond)
			return heard[want].Load() > before
		})
	}
	probe("b")
	digest := l.port("a", 1).Digest
	l.write(blue("", "a", "b", "c") + row("c"))
	probe("c")
	if now := l.port("a", 1).Digest; now == digest || now != l.port("b", 1).Digest {
		t.Errorf("digest %#x before, %#x after, %#x on b", digest, now, l.port("b", 1).Digest)
	}
	l.stop("m", syscall.SIGKILL)
	l.ping("a", "10.88.0.3")
	l.manager()
	for _, h := range names[:3] {
		l.settled(h)
	}
	err := client.Wait()
	if bits := l.received(out.Bytes(), err); bits < 1e7 {
		t.Errorf("the stream got %g bit/s", bits)
	}
	l.write(blue("", "a", "b"))
	l.eventually("c's port is deleted", func() bool { return l.port("c", 1).State == "no switch" })
	if text := l.hosts["c"].Run("ip", "link", "show", "vnic1"); !strings.Contains(text, "NO-CARRIER") {
		t.Errorf("the device of a deleted port: %s", text)
	}
	l.settled("a")
	before := heard["c"].Load()
	send(t, l.hosts["a"], "vnic1", rawFrame(vnic.Broadcast, l.mac("a", 1), -1, "moving"))
	l.ping("a", "10.88.0.2")
	if n := heard["c"].Load(); n != before {
		t.Error("a deleted port hears broadcasts")
	}
}

// TestLinks: the states of a link, and the traps that tell of it.
func TestLinks(t *testing.T) {
	l := newLab(t, 1700)
	l.write(blue("", "a", "b") + "[[switch.port]]\nhost = \"c\"\ndrop = true\n")
	l.manager()
	for _, h := range names[:3] {
		l.agent(h)
	}
	for _, h := range names[:3] {
		l.settled(h)
	}
	l.hosts["c"].IP("link set vnic1 up")
	if text := l.hosts["c"].Run("ip", "link", "show", "vnic1"); !strings.Contains(text, "NO-CARRIER") {
		t.Errorf("a port that is to drop all has a carrier: %s", text)
	}
	if s := l.port("b", 1).State; s != "interface is down" {
		t.Errorf("state %q", s)
	}
	traps := func(opcode int) (n int) {
		var list []struct {
			Host   string
			Opcode int
		}
		l.show("m", "traps", &list)
		for _, p := range list {
			if p.Host == "b" && p.Opcode == opcode {
				n++
			}
		}
		return n
	}
	l.hosts["b"].IP("link set vnic1 up")
	l.eventually("a trap of the link that came up", func() bool { return traps(3) == 1 })
	if text := l.hosts["b"].Run("ip", "link", "show", "vnic1"); !strings.Contains(text, "state UP") {
		t.Errorf("the device of a forwarding port: %s", text)
	}
	time.Sleep(1200 * time.Millisecond) // the window of traps
	l.hosts["b"].Run("bridge", "fdb", "add", "00:dd:00:00:00:01", "dev", "vnic1", "self")
	l.eventually("a trap of the unicast list", func() bool { return traps(1) >= 1 })
	l.eventually("a's table has the address", func() bool {
		var list []struct{ MAC string }
		l.show("a", "macs", &list)
		for _, e := range list {
			if e.MAC == "00:dd:00:00:00:01" {
				return true
			}
		}
		return false
	})
	l.hosts["b"].IP("link set vnic1 down")
	l.eventually("the port does not forward", func() bool {
		return l.port("b", 1).State == "interface is down"
	})
	l.eventually("a trap of the link that went down", func() bool { return traps(3) == 2 })
}

// TestDeviceTaken: a device that somebody removes is made anew; one that has got another name, or
// has gone to another namespace, carries on.
func TestDeviceTaken(t *testing.T) {
	l := newLab(t, 1700)
	l.up(blue("", "a", "b", "c"))
	l.hosts["a"].IP("link del vnic1")
	l.eventually("the device is made anew", func() bool {
		_, err := l.try("a", "ip", "link", "show", "vnic1")
		return err == nil && len(l.port("a", 1).Problems) == 0
	})
	l.hosts["a"].IP("addr add 10.88.0.1/24 dev vnic1", "link set vnic1 up")
	l.forwarding("a", 1)
	l.ping("a", "10.88.0.2")
	before := ticks(t, l.procs["a"])
	l.hosts["a"].IP("link set vnic1 down", "link set vnic1 name other", "link set other up")
	l.eventually("the agent knows the new name", func() bool {
		p := l.port("a", 1)
		return p.Device == "other" && p.State == "forwarding"
	})
	l.ping("a", "10.88.0.3")
	l.hosts["c"].IP("addr flush dev vnic1")
	l.hosts["b"].IP("link set vnic1 down", "link set vnic1 name moved",
		"link set moved netns "+l.hosts["c"].NS)
	l.hosts["c"].IP("addr add 10.88.0.2/24 dev moved", "link set moved up")
	l.eventually("the agent tells where the device is", func() bool {
		p := l.port("b", 1)
		return strings.Contains(p.Problems["look"], "another network namespace") &&
			p.State == "forwarding"
	})
	l.ping("a", "10.88.0.2")
	l.hosts["c"].IP("link del moved") // now it is gone
	l.eventually("b has a device again", func() bool {
		_, err := l.try("b", "ip", "link", "show", "vnic1")
		return err == nil
	})
	if n := ticks(t, l.procs["a"]) - before; n > 100 {
		t.Errorf("an agent whose device has another name used %d0 ms", n)
	}
}

// TestWrongHost: an agent whose host the file does not name says so, and what to do.
func TestWrongHost(t *testing.T) {
	l := newLab(t, 1700)
	l.write(blue("", "a"))
	l.manager()
	args := l.agentArgs("a")
	args[slices.Index(args, "--host")+1] = "zz"
	p := l.start("zz", l.hosts["a"].Command(binary, args...))
	l.eventually("the agent tells of it", func() bool {
		return strings.Contains(p.out.String(), `does not know host "zz"`)
	})
	var report struct{ Refused string }
	l.show("a", "agent", &report)
	if report.Refused == "" {
		t.Error("show agent --format json does not tell of it")
	}
	out, err := exec.Command(binary, "show", "agent", "--socket", l.socket("a")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), `does not know host "zz"`) {
		t.Errorf("show agent: %v\n%s", err, out)
	}
}

// ticks is the processor time that a process has used, in hundredths of a second.
func ticks(t *testing.T, p *process) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	var user, system int
	fields := strings.Fields(after)
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	return user + system
}

// TestDump: what dump writes is pcapng with the frames of both directions.
func TestDump(t *testing.T) {
	l := newLab(t, 1700)
	l.up(blue("", "a", "b", "c"))
	name := l.file() + ".pcapng"
	d := l.start("dump", exec.Command(binary, "dump", "1", "--socket", l.socket("a"), "-o", name))
	l.eventually("the dump has an answer to a ping", func() bool {
		l.ping("a", "10.88.0.2")
		f, err := os.Open(name)
		if err != nil {
			return false
		}
		defer f.Close()
		r, err := pcapgo.NewNgReader(f, pcapgo.DefaultNgReaderOptions)
		if err != nil {
			return false
		}
		types := map[byte]bool{}
		for {
			b, _, err := r.ReadPacketData()
			if err != nil {
				return types[8] && types[0]
			}
			if len(b) > 34 && be.Uint16(b[12:]) == 0x0800 && b[23] == 1 {
				types[b[34]] = true
			}
		}
	})
	if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-d.exited
	if d.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("dump ends with %v\n%s", d.cmd.ProcessState, d.out.String())
	}
}

// TestUnprivileged: with a device that was handed over by its descriptor an agent needs no rights,
// and leaves the device to who has made it.
func TestUnprivileged(t *testing.T) {
	l := newLab(t, 1700)
	l.net.Need("setpriv", "util-linux")
	l.write(blue("", "a", "b", "c"))
	l.manager()
	h := l.hosts["a"]
	h.IP("tuntap add dev mine mode tap vnet_hdr", "addr add 10.88.0.1/24 dev mine",
		"link set mine address 02:00:01:01:00:00 up")
	var device *os.File
	h.Do(func() { device = openTAP(t, "mine") })
	defer device.Close()
	// Not below TempDir, whose parent is for its owner alone.
	dir, err := os.MkdirTemp("", "unprivileged") //nolint:usetesting // as said
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	args := append([]string{
		"--reuid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs",
		binary,
	}, l.agentArgs("a", "--fd", "1=3")...)
	for i := range args {
		if args[i] == l.socket("a") {
			args[i] = dir + "/a.sock"
		}
	}
	cmd := h.Command("setpriv", args...)
	cmd.ExtraFiles = []*os.File{device}
	l.start("a", cmd)
	l.agent("b")
	for _, name := range names[:2] {
		l.settled(name)
	}
	l.hosts["b"].IP("addr add 10.88.0.2/24 dev vnic1", "link set vnic1 up")
	l.forwarding("b", 1)
	l.eventually("a ping of an agent without rights", func() bool {
		_, err := l.try("a", "ping", "-c", "1", "-W", "1", "10.88.0.2")
		return err == nil
	})
	if status := l.stop("a", syscall.SIGTERM); status != 0 {
		t.Errorf("status %d", status)
	}
	if _, err := l.try("a", "ip", "link", "show", "mine"); err != nil {
		t.Error("the administrator's device is gone")
	}
}

// openTAP opens a device as a program does that hands it over.
func openTAP(t *testing.T, name string) *os.File {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		t.Fatal(err)
	}
	ifr.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return os.NewFile(uintptr(fd), name)
}

var hostileFrames = flag.Int("vnic.hostile", 80_000, "malformed and forged frames on real sockets")

// TestHostileWire: datagrams of all kinds from somebody who is no host, and from one who is, change
// nothing, and are counted as what they are.
func TestHostileWire(t *testing.T) {
	l := newLab(t, 1700)
	l.up(blue("learning = true", "a", "b", "c"))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	ports := udpPorts(t, l.hosts["b"])
	before := l.port("b", 1)
	first := l.counters("b", 1)
	each := *hostileFrames / len(ports)
	l.hosts["c"].Do(func() {
		for _, port := range ports {
			c, err := net.Dial("udp", fmt.Sprintf("10.77.0.2:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for i := range each {
				if _, err := c.Write(hostilePacket(r)); err != nil && i == 0 {
					t.Fatal(err)
				}
				if i%64 == 0 {
					time.Sleep(200 * time.Microsecond) // what overflows the socket is not judged
				}
			}
		}
	})
	l.ping("a", "10.88.0.2")
	after := l.port("b", 1)
	before.Learned, after.Learned = 0, 0
	if fmt.Sprint(*before) != fmt.Sprint(*after) {
		t.Errorf("the port was %+v and is %+v", before, after)
	}
	var learned []struct{ LID int }
	l.show("b", "fdb", &learned)
	if len(learned) != 0 {
		t.Errorf("%d addresses are learned from forged frames", len(learned))
	}
	c := l.counters("b", 1)
	for name := range c {
		c[name] -= first[name]
	}
	if c["rx_errors"] < uint64(each) || c["rx_forged"] == 0 || c["rx_malformed"] == 0 ||
		c["rx_runt"] == 0 || c["rx_errors"] != c["rx_forged"]+c["rx_malformed"]+c["rx_runt"] {
		t.Errorf("errors %d; forged %d, malformed %d, runts %d", c["rx_errors"], c["rx_forged"],
			c["rx_malformed"], c["rx_runt"])
	}
	t.Logf("%d datagrams to each of %d ports: forged %d, malformed %d, runts %d", each, len(ports),
		c["rx_forged"], c["rx_malformed"], c["rx_runt"])
}

// hostilePacket is a packet of a member's number from another's address, often damaged.
func hostilePacket(r *rand.Rand) []byte {
	h := vnic.Header{SLID: uint32(1 + r.IntN(4)), DLID: 2, VESW: uint16(r.IntN(3))}
	p, err := h.Append(nil, rawFrame(0x020001020000, vnic.MAC(r.Uint64()&0xFCFFFFFFFFFF), -1, "x"))
	if err != nil {
		panic(err)
	}
	switch r.IntN(4) {
	case 0:
		p[r.IntN(len(p))] ^= 1 << r.IntN(8)
	case 1:
		p = p[:r.IntN(len(p))]
	case 2:
		p[len(p)-1] = byte(r.Uint32())
	}
	return p
}

// udpPorts lists the ports at which a host's processes listen.
func udpPorts(t *testing.T, h *netns.Host) (ports []int) {
	t.Helper()
	h.Do(func() {
		text, err := os.ReadFile("/proc/thread-self/net/udp")
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(text), "\n")[1:] {
			var slot, addr, port int
			if n, _ := fmt.Sscanf(strings.TrimSpace(line), "%d: %x:%x", &slot, &addr, &port); n == 3 {
				ports = append(ports, port)
			}
		}
	})
	return ports
}
