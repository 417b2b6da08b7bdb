//go:build linux

package stream

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gobtl/test/netns"
)

// hostPair runs a receiver and a sender on two hosts.
func hostPair(t *testing.T, a, b netns.Port, both, receiver, sender []string) (rx, tx *process) {
	t.Helper()
	both = append([]string{"--format", "json"}, both...)
	args := append([]string{"--listen", b.V4.String() + ":0"}, both...)
	cmd := b.Host.Command(program, append(args, receiver...)...)
	cmd.Dir = t.TempDir()
	rx = run(t, cmd)
	args = append([]string{"-s", "--connect", rx.listening()}, both...)
	cmd = a.Host.Command(program, append(args, sender...)...)
	cmd.Dir = t.TempDir()
	return rx, run(t, cmd)
}

// counter reads what the rules of nft have counted.
func counter(t *testing.T, h *netns.Host) (n uint64) {
	t.Helper()
	re := regexp.MustCompile(`counter packets (\d+)`)
	for _, m := range re.FindAllStringSubmatch(h.Run("nft", "list", "ruleset"), -1) {
		part, err := strconv.ParseUint(m[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		n += part
	}
	return n
}

// TestFilter: what the packet filter between two hosts loses, and counts, is what the receiver
// counts. Messages of one datagram, in datagrams of an Ethernet's size.
func TestFilter(t *testing.T) {
	const port = 4747
	// Behind the 8 bytes of UDP's header, the ordinal stands in bytes 16 to 23, little-endian. 19 950
	// is 0x4dee.
	for name, rules := range map[string][]string{
		"every 97th": {"numgen inc mod 97 == 3"},
		"1 %":        {"numgen random mod 100 < 1"},
		"bursts":     {"numgen inc mod 1000 < 60"},
		"first 50":   {"@th,192,8 < 50 @th,200,8 0"},
		"last 50":    {"@th,192,8 >= 0xee @th,200,8 0x4d", "@th,200,8 0x4e"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab := netns.New(t)
			lab.Need("nft", "nftables")
			a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
			a.Feature("tx-udp-segmentation", false) // else a run of datagrams is one packet to the filter
			for _, rule := range rules {
				// Probes, which have this number in bytes 4 to 7, carry nothing of a message.
				b.Host.Filter("input", fmt.Sprintf(
					"udp dport %d udp length > 40 @th,96,32 != 0xffffffff %s counter drop", port, rule))
			}
			rx, tx := hostPair(t, a, b,
				[]string{"-m1400", "-b32", "-c32", "-t20000", "--mode", "unreliable"},
				[]string{"-p", fmt.Sprint(port), "--verify"}, []string{"--rate", "0.1"})
			tx.ok()
			rx.ok()
			r, lost := rx.report(), counter(t, b.Host)
			if r.Sent != 20_000 || lost == 0 || r.Missing != lost+r.SocketDrops ||
				r.Messages+r.Missing != r.Sent || strings.HasSuffix(name, " 50") && lost != 50 ||
				r.Late+r.Duplicates+r.Foreign != 0 {
				t.Errorf("filter %d, %+v", lost, r)
			}
		})
	}
}

// TestReliableThroughFilter: the transport makes up for it.
func TestReliableThroughFilter(t *testing.T) {
	lab := netns.New(t)
	a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
	a.Lose(b, .01)
	b.Lose(a, .01)
	both := []string{"-m8192", "-b16", "-c16", "-t3000"}
	rx, tx := hostPair(t, a, b, both, []string{"--verify"}, nil)
	tx.ok()
	rx.ok()
	if r := rx.report(); r.Messages != 3000 || r.Missing != 0 {
		t.Errorf("%+v", r)
	}
}

// TestGroupBetweenHosts: a multicast group over a cable, and one that reaches nobody.
func TestGroupBetweenHosts(t *testing.T) {
	lab := netns.New(t)
	a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
	rx, tx := hostPair(t, a, b, []string{"-m4096", "-b32", "-c8", "-t2000", "--mode", "unreliable"},
		[]string{"--verify"}, []string{"--rate", "0.1", "--group", "239.3.2.1:6000"})
	tx.ok()
	rx.ok()
	if r := rx.report(); r.Sent != 2000 || r.Missing > r.SocketDrops {
		t.Errorf("%+v", r)
	}
}

// TestForgedTooBig: a third host, which is no peer, sends ICMP messages that the path to the
// receiver carries only 600 bytes. The kernel of the sender believes the messages, and the stream
// goes on.
func TestForgedTooBig(t *testing.T) {
	lab := netns.New(t)
	sender := lab.Host("sender")
	a, b := lab.Cable(sender, lab.Host("receiver"), 1500)
	c, third := lab.Cable(sender, lab.Host("third"), 1500)
	rx, tx := hostPair(t, a, b, []string{"-m1448", "-b64", "-c64", "-t0", "--mode", "unreliable"},
		nil, []string{"--rate", "0.05"})
	arrived := func(n uint64) func() bool {
		end := b.Received() + n
		return func() bool {
			select {
			case <-tx.exited:
				t.Fatalf("the sender has ended: %s", tx.stderr.String())
			default:
			}
			return b.Received() > end
		}
	}
	eventually(t, "datagrams arrive", arrived(2000))
	third.Host.TooBig(sender, c.V4, a.V4, b.V4, 600)
	eventually(t, "the kernel believes the message", func() bool {
		return strings.Contains(sender.Run("ip", "route", "get", b.V4.String()), "mtu 600")
	})
	eventually(t, "datagrams arrive after the message", arrived(20_000))
	tx.signal(syscall.SIGINT)
	if status := tx.wait(); status != 128+int(syscall.SIGINT) {
		t.Errorf("the sender: status %d: %s", status, tx.stderr.String())
	}
	rx.ok()
	if r := rx.report(); r.Missing > r.SocketDrops {
		t.Errorf("%+v", r)
	}
}

// TestSmallPath: a router that silently drops the stream's datagrams is found out before the start.
func TestSmallPath(t *testing.T) {
	lab := netns.New(t)
	a, b, router := lab.Route(lab.Host("a"), lab.Host("b"), 1500, 1500)
	router.IP("link set eth1 mtu 1400")
	router.Silence()
	rx, tx := hostPair(t, a, b, []string{"-m1448", "-b4", "-c4", "-t1000", "--mode", "unreliable"},
		nil, nil)
	if status := tx.wait(); status != 1 ||
		!strings.Contains(tx.stderr.String(), "the path takes no datagrams of 1472 bytes") {
		t.Errorf("status %d: %s", status, tx.stderr.String())
	}
	eventually(t, "the receiver says why", func() bool {
		return strings.Contains(rx.stderr.String(), "the path takes no datagrams of 1472 bytes")
	})
}
