//go:build linux

package vnic

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/internal/report"
)

// "make vnic-compare" asks for more; the tests see that the measurement itself works.
var compareRounds = flag.Int("vnic.rounds", 0, "rounds of the measurements, 2 s for each figure; "+
	"0 is a short one, without peers")

// way is a network between hosts a and b that is measured: b's address in it.
type way struct {
	name, to string
	tcp      []float64 // Gbit/s
	ping     []float64 // us
	packets  []float64 // thousands a second
}

// comparison measures ways in turns.
type comparison struct {
	*lab
	seconds string
	ways    []*way
}

func newComparison(t *testing.T, switches string, agentFlags ...string) *comparison {
	c := &comparison{lab: newLab(t, 1700), seconds: "2"}
	if *compareRounds == 0 {
		c.seconds = "1"
	}
	c.up(switches, agentFlags...)
	server := c.start("server", c.hosts["b"].Command("iperf3", "-s", "--forceflush"))
	c.eventually("iperf3 listens", func() bool {
		return strings.Contains(server.out.String(), "listening")
	})
	return c
}

func (c *comparison) add(name, to string) {
	c.t.Helper()
	c.eventually(name+" carries frames", func() bool {
		_, err := c.try("a", "ping", "-c", "1", "-W", "1", to)
		return err == nil
	})
	c.ways = append(c.ways, &way{name: name, to: to})
}

// stream is a run of iperf3 from a; it returns the Gbit/s and the thousands of packets a second
// that arrived.
func (c *comparison) stream(to string, args ...string) (gbit, packets float64) {
	c.t.Helper()
	out, err := c.hosts["a"].Command("iperf3", append([]string{
		"-c", to, "-J", "-t", c.seconds, "--connect-timeout", "5000",
	}, args...)...).Output()
	var r struct {
		End struct {
			Sum struct {
				Packets, Seconds float64
				Lost             float64 `json:"lost_packets"`
			}
		}
	}
	gbit = c.received(out, err) / 1e9
	if err := json.Unmarshal(out, &r); err == nil && r.End.Sum.Seconds > 0 {
		packets = (r.End.Sum.Packets - r.End.Sum.Lost) / r.End.Sum.Seconds / 1e3
	}
	return gbit, packets
}

// latency is the mean round trip of pings that come alone, in us.
func (c *comparison) latency(to string) float64 {
	c.t.Helper()
	count := "100"
	if *compareRounds == 0 {
		count = "10"
	}
	out := c.hosts["a"].Run("ping", "-q", "-c", count, "-i", ".005", to)
	_, after, _ := strings.Cut(out, "mdev = ")
	fields := strings.Split(after, "/")
	if len(fields) < 2 {
		c.t.Fatalf("ping: %s", out)
	}
	ms, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		c.t.Fatal(err)
	}
	return ms * 1e3
}

// TestCompare measures btlvnic beside kernel VXLAN, the plain network below, a copier between two
// TAP devices, and what else there is: kernel WireGuard, wireguard-go, n2n, tinc.
func TestCompare(t *testing.T) {
	c := newComparison(t, blue("", "a", "b", "c"))
	c.add("btlvnic", "10.88.0.2")
	c.add("plain network", "10.77.0.2")
	if *compareRounds > 0 {
		c.vxlan()
		c.copier()
		c.wireguard("WireGuard, kernel", "wgk", "10.95.0", 51821, "")
		c.wireguard("wireguard-go", "wgu", "10.92.0", 51820, "wireguard-go")
		c.n2n()
		c.tinc()
	}
	for range max(*compareRounds, 1) {
		for _, w := range c.ways {
			gbit, _ := c.stream(w.to)
			_, packets := c.stream(w.to, "-u", "-b", "0", "-l", "18")
			w.tcp, w.packets = append(w.tcp, gbit), append(w.packets, packets)
			w.ping = append(w.ping, c.latency(w.to))
			t.Logf("%s: %.2f Gbit/s, %.0f us, %.0f thousand/s", w.name, gbit, w.ping[len(w.ping)-1],
				packets)
		}
	}
	table := report.Table{
		Heads: [][]string{{"", "TCP, Gbit/s", "of VXLAN", "ping, us", "UDP of 18 bytes, thousand/s"}},
		Left:  []int{0},
	}
	vxlan := 0.0
	for _, w := range c.ways {
		if w.name == "kernel VXLAN" {
			vxlan = report.Median(w.tcp)
		}
	}
	for _, w := range c.ways {
		share := "-"
		if vxlan > 0 {
			share = fmt.Sprintf("%.2f", report.Median(w.tcp)/vxlan)
		}
		table.Rows = append(table.Rows, []string{
			w.name, spread(w.tcp, 2), share, spread(w.ping, 0), spread(w.packets, 0),
		})
		if report.Median(w.tcp) <= 0 || report.Median(w.ping) <= 0 || report.Median(w.packets) <= 0 {
			t.Errorf("%s was not measured: %+v", w.name, w)
		}
	}
	t.Logf("medians of %d rounds, in brackets the least and the most:\n%s", max(*compareRounds, 1),
		table.String())
}

// spread is a median with what it is of.
func spread(all []float64, decimals int) string {
	lo, hi := all[0], all[0]
	for _, v := range all {
		lo, hi = min(lo, v), max(hi, v)
	}
	return fmt.Sprintf("%.*f (%.*f-%.*f)", decimals, report.Median(all), decimals, lo, decimals, hi)
}

func (c *comparison) vxlan() {
	for i, h := range names[:2] {
		c.hosts[h].IP(fmt.Sprintf("link add vxl type vxlan id 7 local 10.77.0.%d remote 10.77.0.%d "+
			"dstport 4789 dev eth0", i+1, 2-i), fmt.Sprintf("addr add 10.89.0.%d/24 dev vxl", i+1),
			"link set vxl mtu 1500 up")
	}
	c.add("kernel VXLAN", "10.89.0.2")
}

// copier is the least that a program can do: it copies frames from one TAP device to another.
func (c *comparison) copier() {
	var taps [2]*os.File
	for i, h := range names[:2] {
		c.hosts[h].IP("tuntap add dev plain mode tap", fmt.Sprintf("addr add 10.94.0.%d/24 dev plain",
			i+1), "link set plain up")
		c.hosts[h].Do(func() {
			fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
			if err != nil {
				c.t.Fatal(err)
			}
			ifr, err := unix.NewIfreq("plain")
			if err != nil {
				c.t.Fatal(err)
			}
			ifr.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
			if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
				c.t.Fatal(err)
			}
			taps[i] = os.NewFile(uintptr(fd), "plain")
		})
	}
	for i := range taps {
		c.t.Cleanup(func() { taps[i].Close() })
		go func() {
			for buf := make([]byte, 2000); ; {
				n, err := taps[i].Read(buf)
				if err != nil {
					return // closed
				}
				_, _ = taps[1-i].Write(buf[:n]) // a full device loses frames, as they do
			}
		}()
	}
	c.add("copier between two TAPs", "10.94.0.2")
}

// has says whether a program is there to be measured.
func (c *comparison) has(name, program string) bool {
	_, err := exec.LookPath(program)
	if err != nil {
		c.t.Logf("%s is not measured: there is no %s", name, program)
	}
	return err == nil
}

// wireguard is the kernel's, or that of a program, whose control socket is named by the device.
func (c *comparison) wireguard(name, dev, prefix string, port int, program string) {
	if !c.has(name, "wg") || program != "" && !c.has(name, program) {
		return
	}
	var public [2]string
	base := dev
	for i, h := range names[:2] {
		dev := base + h
		if program == "" {
			if out, err := c.try(h, "ip", "link", "add", dev, "type", "wireguard"); err != nil {
				c.t.Logf("%s is not measured: ip link add type wireguard: %s", name, out)
				return
			}
		} else {
			c.start(program+h, c.hosts[h].Command("env", "WG_PROCESS_FOREGROUND=1", program, "-f", dev))
			c.eventually(program+" is up", func() bool {
				_, err := c.try(h, "wg", "show", dev)
				return err == nil
			})
		}
		key := filepath.Join(c.dir, dev)
		private := c.hosts[h].Run("wg", "genkey")
		if err := os.WriteFile(key, []byte(private), 0o600); err != nil {
			c.t.Fatal(err)
		}
		c.hosts[h].Run("wg", "set", dev, "listen-port", strconv.Itoa(port), "private-key", key)
		public[i] = strings.TrimSpace(c.hosts[h].Run("wg", "show", dev, "public-key"))
	}
	for i, h := range names[:2] {
		dev := base + h
		c.hosts[h].Run("wg", "set", dev, "peer", public[1-i], "allowed-ips", prefix+".0/24",
			"endpoint", fmt.Sprintf("10.77.0.%d:%d", 2-i, port))
		c.hosts[h].IP(fmt.Sprintf("addr add %s.%d/24 dev %s", prefix, i+1, dev),
			"link set "+dev+" mtu 1500 up")
	}
	c.add(name, prefix+".2")
}

func (c *comparison) n2n() {
	if !c.has("n2n", "edge") || !c.has("n2n", "supernode") {
		return
	}
	c.start("supernode", c.hosts["m"].Command("supernode", "-l", "7654", "-f"))
	time.Sleep(time.Second) // an edge that finds none asks again much later
	for i, h := range names[:2] {
		c.start("edge"+h, c.hosts[h].Command("edge", "-d", "n2n0", "-a", fmt.Sprintf("10.90.0.%d", i+1),
			"-c", "lab", "-k", "x", "-l", "10.77.0.4:7654", "-M", "1500", "-f", "-b"))
	}
	c.t.Cleanup(func() { // an edge leaves its process group
		for _, h := range names[:2] {
			// Not by Run, whose context has ended with the test.
			pids, err := exec.Command("ip", "netns", "pids", c.hosts[h].NS).Output()
			if err != nil {
				c.t.Errorf("who runs on host %s: %v", h, err)
			}
			for _, text := range strings.Fields(string(pids)) {
				if pid, err := strconv.Atoi(text); err == nil && pid != os.Getpid() {
					_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
				}
			}
		}
	})
	c.add("n2n", "10.90.0.2")
	time.Sleep(3 * time.Second) // until the edges find the direct way
}

func (c *comparison) tinc() {
	if !c.has("tinc", "tincd") {
		return
	}
	var dirs [2]string
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			c.t.Fatal(err)
		}
	}
	for i, h := range names[:2] {
		dirs[i] = filepath.Join(c.dir, "tinc"+h)
		if err := os.MkdirAll(filepath.Join(dirs[i], "hosts"), 0o700); err != nil {
			c.t.Fatal(err)
		}
		conf := "Name=" + h + "\nMode=switch\nInterface=tinc0\nDeviceType=tap\nAddressFamily=ipv4\n"
		if i == 0 {
			conf += "ConnectTo=b\n"
		}
		write(dirs[i]+"/tinc.conf", conf, 0o600)
		write(dirs[i]+"/tinc-up", fmt.Sprintf("#!/bin/sh\nip addr add 10.91.0.%d/24 dev $INTERFACE\n"+
			"ip link set $INTERFACE mtu 1500 up\n", i+1), 0o700)
		write(dirs[i]+"/hosts/"+h, fmt.Sprintf("Address=10.77.0.%d\nCipher=none\nDigest=none\n", i+1),
			0o600)
		keys := exec.Command("tincd", "-c", dirs[i], "-K", "2048")
		if out, err := keys.CombinedOutput(); err != nil {
			c.t.Fatalf("tincd -K: %v\n%s", err, out)
		}
	}
	for i, h := range names[:2] {
		text, err := os.ReadFile(dirs[i] + "/hosts/" + h)
		if err != nil {
			c.t.Fatal(err)
		}
		write(dirs[1-i]+"/hosts/"+h, string(text), 0o600)
	}
	for i, h := range names[:2] {
		c.start("tinc"+h, c.hosts[h].Command("tincd", "-c", dirs[i], "-D", "--pidfile="+dirs[i]+"/pid"))
	}
	c.add("tinc, no cipher", "10.91.0.2")
}

// TestCompareLoss measures one TCP stream through both carriers of one pair of agents, without loss
// and with 1 % of what arrives lost, by congestion control.
func TestCompareLoss(t *testing.T) {
	table := report.Table{
		Heads: [][]string{{"", "datagram", "fragment", "fragment / datagram"}}, Left: []int{0},
	}
	paths := []string{"", "loss=1%", "loss=1%,delay=2ms"}
	if *compareRounds == 0 {
		paths = paths[1:2]
	}
	for _, faults := range paths {
		var flags []string
		if faults != "" {
			flags = []string{"--impair", faults}
		}
		c := newComparison(t, blue("", "a", "b", "c")+
			virtual("red", 2, "carrier = \"fragment\"", "a", "b"), flags...)
		for i, h := range names[:2] {
			c.hosts[h].IP(fmt.Sprintf("addr add 10.93.0.%d/24 dev vnic2", i+1), "link set vnic2 up")
			c.forwarding(h, 2)
		}
		c.add("datagram", "10.88.0.2")
		c.add("fragment", "10.93.0.2")
		for _, control := range []string{"cubic", "bbr"} {
			if !c.controls(control) {
				continue
			}
			var gbit [2][]float64
			for range max(*compareRounds, 1) {
				for i, w := range c.ways {
					one, _ := c.stream(w.to, "-C", control)
					gbit[i] = append(gbit[i], one)
					t.Logf("%s %s %s: %.2f Gbit/s", faults, control, w.name, one)
				}
			}
			d, f := report.Median(gbit[0]), report.Median(gbit[1])
			table.Rows = append(table.Rows, []string{
				faults + " " + control, spread(gbit[0], 2), spread(gbit[1], 2), fmt.Sprintf("%.1f", f/d),
			})
			if d <= 0 || f <= 0 {
				t.Errorf("%s, %s: %v", faults, control, gbit)
			}
		}
		for _, h := range names[:3] {
			c.stop(h, unix.SIGTERM)
		}
		c.stop("m", unix.SIGTERM)
		c.stop("server", unix.SIGTERM)
	}
	t.Logf("Gbit/s, medians of %d rounds:\n%s", max(*compareRounds, 1), table.String())
}

// controls says whether the kernel has a congestion control.
func (c *comparison) controls(name string) bool {
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	there := err == nil && strings.Contains(string(text), name)
	if !there {
		_ = exec.Command("modprobe", "tcp_"+name).Run() // a module may not be loaded
		text, err = os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
		there = err == nil && strings.Contains(string(text), name)
	}
	if !there {
		c.t.Logf("the kernel has no %s", name)
	}
	return there
}
