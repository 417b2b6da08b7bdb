//go:build linux

package netns

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gobtl/internal/report"
)

// "make tunnel-compare" asks for more. The test sees that the measurement works.
var tunnelRounds = flag.Int("tunnel.rounds", 0, "rounds of TestTunnelCompare; 0 is one short round")

// far is the address at which the hosts of TestTunnelCompare reach the server through the tunnel.
const far = "10.95.0.2"

// tunnelRows are the measurements of each round of TestTunnelCompare, beside iperf3. A window is
// that of testdata/floor.c, in datagrams; the other rows are btlbench with further flags.
var tunnelRows = []struct {
	name   string
	window string
	flags  []string
}{
	{"C, 32 datagrams under way", "32", nil},
	{"C, 64 datagrams under way", "64", nil},
	{"C, 128 datagrams under way", "128", nil},
	{"btlbench", "", nil},
	{"btlbench --wait event", "", []string{"--wait", "event"}},
	{
		"btlbench --wait event, target_delay=5ms", "",
		[]string{"--wait", "event", "--set", "target_delay=5ms"},
	},
}

// TestTunnelCompare measures streams through a tunnel of a user-space program, wireguard-go, which
// hands packets on in batches: btlbench beside iperf3, in turns. The rows in C are the floor: a
// window of datagrams of the same size and their ACKs, without retransmission.
func TestTunnelCompare(t *testing.T) {
	lab := New(t)
	for program, debian := range map[string]string{
		"wireguard-go": "wireguard-go", "wg": "wireguard-tools", "iperf3": "iperf3", "cc": "gcc",
	} {
		lab.Need(program, debian)
	}
	program, floor := filepath.Join(t.TempDir(), "btlbench"), filepath.Join(t.TempDir(), "floor")
	build(t, exec.Command("go", "build", "-trimpath", "-o", program, "gobtl/cmd/btlbench"))
	build(t, exec.Command("cc", "-O2", "-Wall", "-Werror", "-o", floor, "testdata/floor.c"))
	a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
	tunnel(t, a, b)
	serve(t, b.Host, "listening", "iperf3", "-s", "--forceflush")
	serve(t, b.Host, "istening", program, "serve", "--listen", far+":7700")
	serve(t, b.Host, "listening", floor, "serve", "7800")
	seconds, rounds := "2", *tunnelRounds
	if rounds == 0 {
		seconds, rounds = "1", 1
	}
	shares, rates := make([][]float64, len(tunnelRows)), make([][]float64, len(tunnelRows))
	for range rounds {
		tcp := iperfMBps(t, a.Host, far, seconds)
		for i, row := range tunnelRows {
			var got float64
			if row.window != "" {
				got = floorMBps(t, a.Host, floor, row.window, seconds)
			} else {
				got = btlMBps(t, a.Host, program, seconds, row.flags)
			}
			rates[i], shares[i] = append(rates[i], got), append(shares[i], got/tcp)
			t.Logf("%s: %.1f MB/s, TCP %.1f: %.2f", row.name, got, tcp, got/tcp)
		}
	}
	for i, row := range tunnelRows {
		t.Logf("median of %d: %-40s %6.1f MB/s, %.2f of TCP", rounds, row.name,
			report.Median(rates[i]), report.Median(shares[i]))
	}
}

// build runs a compiler, without cgo.
func build(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// tunnel joins the hosts of two ports by wireguard-go: 10.95.0.1 and .2.
func tunnel(t *testing.T, a, b Port) {
	t.Helper()
	ends := []Port{a, b}
	devices := []string{"wga", "wgb"} // the names of control sockets, which hosts share
	var public [2]string
	for i, p := range ends {
		cmd := p.Host.Command("wireguard-go", "-f", devices[i])
		cmd.Env = append(os.Environ(), "WG_PROCESS_FOREGROUND=1")
		run(t, cmd)
		eventually(t, "wireguard-go is up", func() bool {
			return p.Host.Command("wg", "show", devices[i]).Run() == nil
		})
		key := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(key, []byte(p.Host.Run("wg", "genkey")), 0o600); err != nil {
			t.Fatal(err)
		}
		p.Host.Run("wg", "set", devices[i], "listen-port", "51820", "private-key", key)
		public[i] = strings.TrimSpace(p.Host.Run("wg", "show", devices[i], "public-key"))
	}
	for i, p := range ends {
		p.Host.Run("wg", "set", devices[i], "peer", public[1-i], "allowed-ips", "10.95.0.0/24",
			"endpoint", ends[1-i].V4.String()+":51820")
		p.Host.IP(fmt.Sprintf("addr add 10.95.0.%d/24 dev %s", i+1, devices[i]),
			"link set "+devices[i]+" mtu 1420 up")
	}
}

// run starts a program that is killed with the test.
func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// serve starts a server, and waits until its output contains a word.
func serve(t *testing.T, h *Host, word, program string, args ...string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := h.Command(program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	run(t, cmd)
	eventually(t, program+" listens", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), word)
	})
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for start := time.Now(); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			t.Fatalf("never: %s", what)
		}
	}
}

// iperfMBps is the rate of a TCP connection.
func iperfMBps(t *testing.T, h *Host, to, seconds string) float64 {
	t.Helper()
	var r struct {
		End struct {
			Received struct {
				Bits float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		}
	}
	out := h.Run("iperf3", "-c", to, "-J", "-t", seconds)
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.End.Received.Bits == 0 {
		t.Fatalf("iperf3: %v\n%s", err, out)
	}
	return r.End.Received.Bits / 8e6
}

// floorMBps is the rate of the payload of datagrams in a window of fixed size.
func floorMBps(t *testing.T, h *Host, program, window, seconds string) float64 {
	t.Helper()
	const payload = "1392" // of a tunnel with an MTU of 1420
	out := h.Run(program, "send", far, "7800", payload, window, seconds)
	var rate float64
	if _, err := fmt.Sscanf(out, "%f MB/s", &rate); err != nil || rate == 0 {
		t.Fatalf("floor: %v\n%s", err, out)
	}
	t.Logf("C, %s datagrams under way: %s", window, strings.TrimSpace(out))
	return rate
}

// btlMBps is the rate of messages of 64 KiB, with further flags.
func btlMBps(t *testing.T, h *Host, program, seconds string, flags []string) float64 {
	t.Helper()
	args := append([]string{
		"run", far + ":7700", "--test", "bw", "--size", "64K", "--duration", seconds + "s",
		"--rounds", "1", "--format", "json",
	}, flags...)
	var r struct {
		Runs []struct {
			MBps float64 `json:"bandwidth_mb_per_s"`
		}
	}
	out := h.Run(program, args...)
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Runs) != 1 || r.Runs[0].MBps == 0 {
		t.Fatalf("btlbench: %v\n%s", err, out)
	}
	return r.Runs[0].MBps
}
