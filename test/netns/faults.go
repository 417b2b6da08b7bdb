//go:build linux

package netns

import (
	"fmt"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Filter adds nft rules such as "udp dport 4000 drop" to a chain ("output", "input" or "forward")
// of this host. The first call creates the nft table, and Unfilter removes it.
func (h *Host) Filter(chain string, rules ...string) {
	h.lab.tb.Helper()
	h.lab.Need("nft", "nftables")
	var script strings.Builder
	fmt.Fprintf(&script, "add table inet gobtl\nadd chain inet gobtl %s "+
		"{ type filter hook %s priority 0; policy accept; }\n", chain, chain)
	for _, r := range rules {
		fmt.Fprintf(&script, "add rule inet gobtl %s %s\n", chain, r)
	}
	h.nft(script.String())
}

// Silence makes the host, which is a router, send no ICMP errors for packets that are too large.
func (h *Host) Silence() {
	h.lab.tb.Helper()
	h.Filter("output", "icmp type destination-unreachable drop", "icmpv6 type packet-too-big drop")
}

// Unfilter removes the rules of Filter and Port.Lose.
func (h *Host) Unfilter() {
	h.lab.tb.Helper()
	h.nft("add table inet gobtl\ndelete table inet gobtl\n") // added first: it may not be there
}

func (h *Host) nft(script string) {
	h.lab.tb.Helper()
	cmd := h.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		h.lab.tb.Fatalf("host %s: nft: %v\n%s%s", h.Name, err, out, script)
	}
}

// Lose drops a share of the UDP packets that the port receives, at random. The peer's port is told
// to split coalesced datagrams, because the filter would otherwise drop dozens of them together.
func (p Port) Lose(peer Port, share float64) {
	p.Host.lab.tb.Helper()
	const million = 1_000_000
	peer.Feature("tx-udp-segmentation", false)
	p.Host.Filter("input", fmt.Sprintf(
		"iifname %q meta l4proto udp numgen random mod %d < %d counter drop", p.Dev, million,
		int(share*million)))
}

// Slow limits the port to a rate such as "100mbit", with a queue of limitBytes. Packets that find
// the queue full are dropped.
func (p Port) Slow(rate string, burstBytes, limitBytes int) {
	p.Host.lab.tb.Helper()
	p.Host.lab.Need("tc", "iproute2")
	p.Host.Run("tc", "qdisc", "replace", "dev", p.Dev, "root", "tbf", "rate", rate,
		"burst", strconv.Itoa(burstBytes), "limit", strconv.Itoa(limitBytes))
}

// The constants below come from the Linux header linux/ethtool.h.
const (
	featureStrings = 4  // ETH_SS_FEATURES
	nameBytes      = 32 // ETH_GSTRING_LEN
)

// Feature switches an offload of the port on or off, by its name in the output of "ethtool -k",
// such as "tx-udp-segmentation" or "rx-gro".
func (p Port) Feature(name string, on bool) {
	tb := p.Host.lab.tb
	tb.Helper()
	p.Host.Do(func() {
		if err := setFeature(p.Dev, name, on); err != nil {
			tb.Fatalf("host %s: %s: feature %s: %v", p.Host.Name, p.Dev, name, err)
		}
	})
}

func setFeature(dev, name string, on bool) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// The fields are those of struct ethtool_sset_info: cmd, reserved, sset_mask (64 bits), and a
	// count for each set.
	count := struct {
		cmd, _ uint32
		mask   uint64
		count  uint32
	}{cmd: unix.ETHTOOL_GSSET_INFO, mask: 1 << featureStrings}
	if _, err := ethtool(fd, dev, unsafe.Pointer(&count)); err != nil {
		return err
	}
	// The fields of struct ethtool_gstrings are cmd, string_set, len, and the names.
	const room = 256
	var names struct {
		cmd, set, len uint32
		names         [room][nameBytes]byte
	}
	if count.count > room {
		return fmt.Errorf("%d features", count.count)
	}
	names.cmd, names.set, names.len = unix.ETHTOOL_GSTRINGS, featureStrings, count.count
	if _, err := ethtool(fd, dev, unsafe.Pointer(&names)); err != nil {
		return err
	}
	for i := range names.names[:count.count] {
		if unix.ByteSliceToString(names.names[i][:]) != name {
			continue
		}
		// The fields are those of struct ethtool_sfeatures: cmd, size, and pairs of a mask and
		// wanted values, 32 bits each.
		var set struct {
			cmd, size uint32
			blocks    [room / 32]struct{ valid, requested uint32 }
		}
		set.cmd, set.size = unix.ETHTOOL_SFEATURES, (count.count+31)/32
		set.blocks[i/32].valid = 1 << (i % 32)
		if on {
			set.blocks[i/32].requested = 1 << (i % 32)
		}
		// The result has bits for features that could not be set as wanted.
		if why, err := ethtool(fd, dev, unsafe.Pointer(&set)); err != nil {
			return err
		} else if why != 0 {
			return fmt.Errorf("not changed: answer %#x", why)
		}
		return nil
	}
	return fmt.Errorf("no such feature")
}

// ethtool performs one SIOCETHTOOL request.
func ethtool(fd int, dev string, request unsafe.Pointer) (answer uintptr, err error) {
	var ifreq struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(ifreq.name[:unix.IFNAMSIZ-1], dev)
	ifreq.data = request
	answer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL,
		uintptr(unsafe.Pointer(&ifreq)))
	if errno != 0 {
		return 0, errno
	}
	return answer, nil
}
