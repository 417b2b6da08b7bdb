//go:build linux

package vnic

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"gobtl/vnic"
)

// TestWalk: three hosts on one switch, at several MTUs, with and without offload; the checksums of
// all frames on the wire are right.
func TestWalk(t *testing.T) {
	for _, offload := range []bool{true, false} {
		t.Run(fmt.Sprintf("offload=%v", offload), func(t *testing.T) {
			l := newLab(t, 10400)
			var flags []string
			if !offload {
				flags = []string{"--no-offload"}
			}
			l.up(blue("mtu = 1500", "a", "b", "c"), flags...)
			for _, h := range names[:3] {
				l.hosts[h].Sysctl("net/ipv4/icmp_echo_ignore_broadcasts", "0")
			}
			if p := l.port("a", 1); p.LargeTCP != offload {
				t.Errorf("large frames: %v", p.LargeTCP)
			}
			l.ping("a", "10.88.0.2")
			l.ping("b", "10.88.0.3")
			if out, err := l.try("a", "arping", "-c", "2", "-w", "5", "-I", "vnic1",
				"10.88.0.3"); err != nil {
				t.Errorf("arping: %v\n%s", err, out)
			}
			out, _ := l.try("a", "ping", "-b", "-c", "2", "-i", "0.2", "-w", "5", "10.88.0.255")
			for _, from := range []string{"10.88.0.2", "10.88.0.3"} {
				if !strings.Contains(out, "from "+from) {
					t.Errorf("no answer of %s to a broadcast ping:\n%s", from, out)
				}
			}
			l.pingMAC()
			// What came before b knew the switch, or had its device up, is no fault of the path.
			before := l.counters("b", 1)["rx_errors"]
			for _, mtu := range []int{1500, 9000, 10240} {
				l.throughput(mtu)
			}
			if c := l.counters("b", 1); c["rx_errors"] != before {
				t.Errorf("errors on the way: %v", c)
			}
			l.stopAll()
		})
	}
}

// pingMAC asks agents by their Ethernet addresses.
func (l *lab) pingMAC() {
	l.t.Helper()
	out, err := exec.Command(binary, "ping-mac", "--format", "json", "--socket", l.socket("a"),
		l.port("c", 1).MAC).Output()
	var answers []struct {
		LID   int
		RTT   float64 `json:"rtt_us"`
		Error string
	}
	if json.Unmarshal(out, &answers) != nil || err != nil || len(answers) != 3 ||
		answers[2].LID != 3 ||
		answers[2].RTT <= 0 {
		l.t.Errorf("ping-mac: %v\n%s", err, out)
	}
	out, err = exec.Command(binary, "ping-mac", "-c", "1", "--timeout", "300ms", "--socket",
		l.socket("a"), "02:00:01:63:00:00").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no answer") {
		l.t.Errorf("ping-mac of nobody: %v\n%s", err, out)
	}
}

// throughput has the file changed to an MTU, and runs iperf3 by TCP and UDP.
func (l *lab) throughput(mtu int) {
	t := l.t
	t.Helper()
	l.write(blue(fmt.Sprintf("mtu = %d", mtu), "a", "b", "c"))
	for _, h := range names[:3] {
		l.eventually(fmt.Sprintf("host %s has MTU %d", h, mtu), func() bool {
			return l.port(h, 1).MTU == mtu
		})
	}
	if out := l.hosts["a"].Run("ip", "link", "show", "vnic1"); !strings.Contains(out,
		fmt.Sprintf("mtu %d ", mtu)) {
		t.Errorf("the device: %s", out)
	}
	l.ping("a", "10.88.0.2", "-M", "do", "-s", fmt.Sprint(mtu-28))
	var lock sync.Mutex
	good, bad, broken, largest := 0, 0, 0, 0
	stop := watch(t, l.hosts["b"], "eth0", func(f []byte) {
		packets(f, func(_ vnic.Header, frame []byte, err error) {
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				broken++
				return
			}
			largest = max(largest, len(frame))
			switch ok, other := checksums(frame); {
			case ok:
				good++
			case !other:
				bad++
			}
		})
	})
	tcp := l.iperf("-n", "100M")
	udp := l.iperf("-u", "-b", "200M", "-n", "10M", "-l", fmt.Sprint(mtu-28))
	stop()
	t.Logf("MTU %d: TCP %.2f, UDP %.2f Gbit/s; checksums on the wire: %d right, %d wrong; frames "+
		"up to %d bytes", mtu, tcp/1e9, udp/1e9, good, bad, largest)
	if tcp < 1e7 || udp < 1e7 || good < 100 || bad > 0 || broken > 0 || largest != mtu+14 {
		t.Errorf("MTU %d: TCP %g, UDP %g, checksums %d right, %d wrong, %d no packets, up to %d bytes",
			mtu, tcp, udp, good, bad, broken, largest)
	}
}

// stopAll ends all agents: their devices go, and so do those of one that is killed.
func (l *lab) stopAll() {
	l.t.Helper()
	for _, h := range names[:3] {
		sig, want := syscall.SIGTERM, 0
		if h == "c" {
			sig, want = syscall.SIGKILL, -1
		}
		if status := l.stop(h, sig); status != want {
			l.t.Errorf("agent %s: status %d after %v", h, status, sig)
		}
		if out, err := l.try(h, "ip", "link", "show", "vnic1"); err == nil {
			l.t.Errorf("host %s keeps its device after %v:\n%s", h, sig, out)
		}
	}
}

// TestFragments: with the other carrier large frames pass a path that is too small for them.
func TestFragments(t *testing.T) {
	for _, keys := range []string{"mtu = 9000\ncarrier = \"fragment\"", "mtu = 9000\ncut = true"} {
		l := newLab(t, 1500)
		l.up(blue(keys, "a", "b", "c"))
		if p := l.port("a", 1); p.MTU != 9000 {
			t.Errorf("%s: MTU %d", keys, p.MTU)
		}
		l.eventually("a large ping passes", func() bool {
			_, err := l.try("a", "ping", "-c", "1", "-W", "1", "-M", "do", "-s", "8972", "10.88.0.2")
			return err == nil
		})
		l.ping("a", "10.88.0.2", "-M", "do", "-s", "8972")
		l.ping("a", "10.88.0.3")
		if bits := l.iperf("-n", "100M"); bits < 1e7 {
			t.Errorf("%s: TCP %g bit/s", keys, bits)
		} else {
			t.Logf("%q: TCP %.2f Gbit/s at MTU 9000 over 1500", keys, bits/1e9)
		}
	}
}

// TestSmallPath: the MTU that is announced is what the path carries.
func TestSmallPath(t *testing.T) {
	l := newLab(t, 1500)
	l.up(blue("mtu = 9000", "a", "b", "c"))
	p := l.port("a", 1)
	if p.WantedMTU != 9000 || p.MTU != 1472-25-18 { // encapsulation, Ethernet, tag
		t.Errorf("MTU %d of %d", p.MTU, p.WantedMTU)
	}
	l.ping("a", "10.88.0.2", "-M", "do", "-s", fmt.Sprint(p.MTU-28))
	if bits := l.iperf("-n", "100M"); bits < 1e7 {
		t.Errorf("TCP %g bit/s", bits)
	}
	// The path gets smaller under way, without a word: what is too large is found out, and the MTU
	// follows. Later it gets larger again.
	l.hosts["wire"].IP("link set eth0 mtu 1400")
	l.eventually("the MTU follows the path", func() bool { return l.port("a", 1).MTU < 1330 })
	l.ping("a", "10.88.0.2", "-M", "do", "-s", fmt.Sprint(l.port("a", 1).MTU-28))
	l.hosts["wire"].IP("link set eth0 mtu 1500")
	l.eventually("the MTU grows again", func() bool { return l.port("a", 1).MTU == p.MTU })
	l.ping("a", "10.88.0.2", "-M", "do", "-s", fmt.Sprint(p.MTU-28))
}

// TestForgedTooBig: a host that is no host of the switch sends ICMP messages that the path from a
// to b carries only 600 bytes. The kernel of a believes the messages, and large frames still pass.
func TestForgedTooBig(t *testing.T) {
	l := newLab(t, 1700)
	l.up(blue("mtu = 1500", "a", "b", "c"))
	l.ping("a", "10.88.0.2", "-M", "do", "-s", "1472")
	a, b := netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("10.77.0.2")
	l.hosts["m"].TooBig(l.hosts["a"], a, a, b, 600)
	l.eventually("the kernel believes the messages", func() bool {
		out, err := l.try("a", "ip", "route", "get", b.String())
		return err == nil && strings.Contains(out, "mtu 600")
	})
	l.ping("a", "10.88.0.2", "-M", "do", "-s", "1472")
	for _, large := range []string{"1000", "1472"} {
		l.ping("a", "10.88.0.2", "-M", "do", "-s", large)
	}
	if p, n := l.port("a", 1), l.counters("a", 1)["tx_oversize"]; p.MTU != 1500 || n != 0 {
		t.Errorf("MTU %d, %d frames too large", p.MTU, n)
	}
}
