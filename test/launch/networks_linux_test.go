package launch

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"gobtl/launch"
	"gobtl/mpi"
	"gobtl/test/netns"
)

// networks is the life of a rank that chooses its address by itself.
func networks(ctx context.Context, j *launch.Job) error {
	w, err := mpi.Open(ctx, j, mpi.Config{})
	if err != nil {
		return err
	}
	sum := []int{w.Rank() + 1}
	if err := mpi.Allreduce(ctx, &w.Comm, sum, sum, mpi.Sum[int]()); err != nil {
		return err
	}
	fmt.Println("sum", sum[0])
	return w.Finalize(ctx)
}

// withDocker gives a host a bridge as Docker makes it, before any other device: the same one on
// each host. With a container in it the bridge has a carrier.
func withDocker(h *netns.Host, container bool) {
	h.IP("link add docker0 type bridge", "addr add 172.17.0.1/16 dev docker0", "link set docker0 up")
	if container {
		h.IP("link add inside0 type veth peer name inside1", "link set inside0 master docker0 up",
			"link set inside1 up")
	}
}

// Ranks on several hosts take the addresses by which they reach each other, whatever other devices
// the hosts have, and a second network where the first one does not pass. Without any they say so
// at once. If none passes Init says so, and names a pair for each that was tried.
func TestNetworks(t *testing.T) {
	t.Parallel()
	for name, containers := range map[string][2]bool{
		"no carrier": {false, false}, "carrier": {true, true}, "one carrier": {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab := netns.New(t)
			lab.Need("nft", "nftables")
			a, b := lab.Host("a"), lab.Host("b")
			withDocker(a, containers[0])
			withDocker(b, containers[1])
			shell := namespaceShell(t, map[string]string{"a": a.NS, "b": b.NS})
			job := func(env ...string) result {
				cmd := roleOf(t, "networks", "-n", "3", "--rsh", shell, "--hosts", "a:2,b")
				cmd.Env = append(cmd.Env, env...)
				return run(t, cmd)
			}
			began := time.Now()
			r := job()
			if took := time.Since(began); r.status == 0 || took > limit/4 ||
				!strings.Contains(r.stderr, "no address for the other hosts: ") ||
				!strings.Contains(r.stderr, "172.17.0.1 (docker0)") {
				t.Errorf("no network: status %d after %v\n%s", r.status, took, r.stderr)
			}
			port, other := lab.Cable(a, b, 1500)
			if r := job(); r.status != 0 || r.stdout != "sum 6\nsum 6\nsum 6\n" {
				t.Errorf("status %d, %q\n%s", r.status, r.stdout, r.stderr)
			}
			_, second := lab.Cable(a, b, 1500)
			b.Filter("input", "meta l4proto udp iifname "+other.Dev+" drop")
			if r := job(); r.status != 0 || r.stdout != "sum 6\nsum 6\nsum 6\n" {
				t.Errorf("the first network does not pass: status %d, %q\n%s", r.status, r.stdout, r.stderr)
			}
			b.Filter("input", "meta l4proto udp iifname "+second.Dev+" drop")
			r = job()
			ways := func(from, to netns.Port) string {
				return fmt.Sprintf("from %v (%s) to %v:", from.V4, from.Dev, to.V4)
			}
			if r.status == 0 ||
				!strings.Contains(r.stderr, "a rank does not reach another one") ||
				!strings.Contains(r.stderr, ways(port, other)) &&
					!strings.Contains(r.stderr, ways(other, port)) {
				t.Errorf("silence: status %d, want %q\n%s", r.status, ways(port, other), r.stderr)
			}
		})
	}
}

// Ranks on hosts that have nothing but link-local addresses reach each other, whatever their
// devices are called: a zone is a name of its own host.
func TestLinkLocalNetworks(t *testing.T) {
	t.Parallel()
	lab := netns.New(t)
	a, b := lab.Host("a"), lab.Host("b")
	b.IP("link add eth9 type veth peer name eth8") // Its other devices have other numbers.
	port, other := lab.Cable(a, b, 1500)
	b.IP("link set "+other.Dev+" down", "link set "+other.Dev+" name net7", "link set net7 up",
		"addr flush dev net7", fmt.Sprintf("addr add %s/64 dev net7 nodad", other.LinkLocal))
	a.IP("addr flush dev "+port.Dev,
		fmt.Sprintf("addr add %s/64 dev %s nodad", port.LinkLocal, port.Dev))
	shell := namespaceShell(t, map[string]string{"a": a.NS, "b": b.NS})
	r := run(t, roleOf(t, "networks", "-n", "3", "--rsh", shell, "--hosts", "a:2,b"))
	if r.status != 0 || r.stdout != "sum 6\nsum 6\nsum 6\n" {
		t.Errorf("%s: status %d, %q\n%s", port.Zoned(), r.status, r.stdout, r.stderr)
	}
}
