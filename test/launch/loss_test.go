//go:build linux

package launch

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"gobtl/internal/report"
	"gobtl/test/netns"
)

var (
	lossClass  = flag.String("launch.class", "W", "class of the kernels of TestLoss")
	lossRounds = flag.Int("launch.rounds", 0,
		"how often TestLoss measures; then what loss costs in time is judged, too")
)

// lossShare is the share of packets that are lost, of each direction; lossMost is what a kernel may
// take, by the time that it takes without loss.
const (
	lossShare = .01
	lossMost  = 1.5
)

var verified = regexp.MustCompile(`(?m)^(\w+) class \w, 2 ranks: ([0-9.]+) s, .* verified`)

// TestLoss runs the kernels CG and FT of the NAS benchmarks on two hosts, without loss and with, in
// turns: their results are the published ones, and where that is measured they take no longer than
// half as much again.
func TestLoss(t *testing.T) {
	t.Parallel()
	lab := netns.New(t)
	lab.Need("nft", "nftables")
	a, b := lab.Host("a"), lab.Host("b")
	pa, pb := lab.Cable(a, b, 1500)
	for _, p := range []netns.Port{pa, pb} { // as Lose does it, for both to be the same
		p.Feature("tx-udp-segmentation", false)
	}
	shell := namespaceShell(t, map[string]string{"a": a.NS, "b": b.NS})
	nas := filepath.Join(t.TempDir(), "nas")
	out, err := exec.Command("go", "build", "-o", nas, "gobtl/examples/nas").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	times := map[string][2][]float64{}
	for range max(1, *lossRounds) {
		for lossy := range 2 {
			if lossy == 1 {
				pa.Lose(pb, lossShare)
				pb.Lose(pa, lossShare)
			}
			r := run(t, command(t, btlrun, "-n", "2", "--rsh", shell, "--hosts", "a,b", nas,
				"--kernel", "cg,ft", "--class", *lossClass))
			all := verified.FindAllStringSubmatch(r.stdout, -1)
			if r.status != 0 || len(all) != 2 {
				t.Fatalf("lossy %d: status %d\n%s%s", lossy, r.status, r.stdout, r.stderr)
			}
			for _, m := range all {
				seconds, err := strconv.ParseFloat(m[2], 64)
				if err != nil {
					t.Fatal(err)
				}
				both := times[m[1]]
				both[lossy] = append(both[lossy], seconds)
				times[m[1]] = both
			}
			if lossy == 1 {
				dropped(t, a)
				dropped(t, b)
				a.Unfilter()
				b.Unfilter()
			}
		}
	}
	for _, kernel := range []string{"cg", "ft"} {
		clean, lossy := report.Median(times[kernel][0]), report.Median(times[kernel][1])
		t.Logf("%s class %s: %.3f s, with 1 %% of loss %.3f s, %.2f times", kernel, *lossClass, clean,
			lossy, lossy/clean)
		if *lossRounds > 0 && lossy > lossMost*clean {
			t.Errorf("%s: more than %.1f times", kernel, lossMost)
		}
	}
}

// dropped fails the test if a host has lost no packet.
func dropped(t *testing.T, h *netns.Host) {
	t.Helper()
	rules := h.Run("nft", "list", "table", "inet", "gobtl")
	lost := regexp.MustCompile(`counter packets (\d+)`).FindStringSubmatch(rules)
	if lost == nil || lost[1] == "0" {
		t.Errorf("host %s has lost nothing:\n%s", h.Name, rules)
	}
}

// namespaceShell is a remote shell that leads into network namespaces, by the names of hosts.
func namespaceShell(t *testing.T, hosts map[string]string) string {
	t.Helper()
	script := "#!/bin/sh\nhost=$1\nshift\ncase $host in\n"
	for name, namespace := range hosts {
		script += fmt.Sprintf("%s) exec ip netns exec %s sh -c \"$*\" ;;\n", name, namespace)
	}
	path := filepath.Join(t.TempDir(), "rsh")
	if err := os.WriteFile(path, []byte(script+"esac\nexit 255\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}
