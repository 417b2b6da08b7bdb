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

// TestTunnelCompare measures streams through a tunnel of a user-space program, wireguard-go, which
// hands packets on in batches: btlbench beside iperf3, in turns.
func TestTunnelCompare(t *testing.T) {
	lab := New(t)
	for program, debian := range map[string]string{
		"wireguard-go": "wireguard-go", "wg": "wireguard-tools", "iperf3": "iperf3",
	} {
		lab.Need(program, debian)
	}
	program := filepath.Join(t.TempDir(), "btlbench")
	build := exec.Command("go", "build", "-o", program, "gobtl/cmd/btlbench")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building btlbench: %v\n%s", err, out)
	}
	a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
	tunnel(t, a, b)
	const far = "10.95.0.2"
	serve(t, b.Host, "listening", "iperf3", "-s", "--forceflush")
	serve(t, b.Host, "istening", program, "serve", "--listen", far+":7700")
	seconds, rounds := "2", *tunnelRounds
	if rounds == 0 {
		seconds, rounds = "1", 1
	}
	targets := []string{"", "5ms"}
	shares := make(map[string][]float64)
	for range rounds {
		tcp := iperfMBps(t, a.Host, far, seconds)
		for _, target := range targets {
			got := btlMBps(t, a.Host, program, far+":7700", seconds, target)
			shares[target] = append(shares[target], got/tcp)
			t.Logf("target_delay %q: %.1f MB/s, TCP %.1f: %.2f", target, got, tcp, got/tcp)
		}
	}
	for _, target := range targets {
		t.Logf("target_delay %q: median %.2f of TCP", target, report.Median(shares[target]))
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

// btlMBps is the rate of messages of 64 KiB, with a target_delay if one is given.
func btlMBps(t *testing.T, h *Host, program, to, seconds, target string) float64 {
	t.Helper()
	args := []string{
		"run", to, "--test", "bw", "--size", "64K", "--duration", seconds + "s", "--rounds", "1",
		"--format", "json",
	}
	if target != "" {
		args = append(args, "--set", "target_delay="+target)
	}
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
