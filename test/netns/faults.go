//go:build linux

package netns

import (
	"fmt"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Filter adds rules of nft to a chain of the host's own ("output", "input", "forward"):
// "udp dport 4000 drop". The first call makes the table; Unfilter removes all.
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

// Lose has the port drop a share of the UDP packets that come in, at random. The peer's port is
// told to cut runs of datagrams itself, or the veth pair would hand over, and lose, dozens of them
// in one piece.
func (p Port) Lose(peer Port, share float64) {
	p.Host.lab.tb.Helper()
	const million = 1_000_000
	peer.Feature("tx-udp-segmentation", false)
	p.Host.Filter("input", fmt.Sprintf(
		"iifname %q meta l4proto udp numgen random mod %d < %d counter drop", p.Dev, million,
		int(share*million)))
}

// Slow limits the port to a rate ("100mbit"), with a queue of limitBytes. Packets that find the
// queue full are dropped.
func (p Port) Slow(rate string, burstBytes, limitBytes int) {
	p.Host.lab.tb.Helper()
	p.Host.lab.Need("tc", "iproute2")
	p.Host.Run("tc", "qdisc", "replace", "dev", p.Dev, "root", "tbf", "rate", rate,
		"burst", strconv.Itoa(burstBytes), "limit", strconv.Itoa(limitBytes))
}

// What the headers of Linux (linux/ethtool.h) say about the names of features.
const (
	featureStrings = 4  // ETH_SS_FEATURES
	nameBytes      = 32 // ETH_GSTRING_LEN
)

// Feature switches an offload of the port, by the name that "ethtool -k" shows for it
// ("tx-udp-segmentation", "tx-checksum-ip-generic", "rx-gro").
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
	// struct ethtool_sset_info: cmd, reserved, sset_mask (64 bits), then a count for each set.
	count := struct {
		cmd, _ uint32
		mask   uint64
		count  uint32
	}{cmd: unix.ETHTOOL_GSSET_INFO, mask: 1 << featureStrings}
	if _, err := ethtool(fd, dev, unsafe.Pointer(&count)); err != nil {
		return err
	}
	// struct ethtool_gstrings: cmd, string_set, len, then the names.
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
		// struct ethtool_sfeatures: cmd, size, then a mask and the wanted values, 32 at a time.
		var set struct {
			cmd, size uint32
			blocks    [room / 32]struct{ valid, requested uint32 }
		}
		set.cmd, set.size = unix.ETHTOOL_SFEATURES, (count.count+31)/32
		set.blocks[i/32].valid = 1 << (i % 32)
		if on {
			set.blocks[i/32].requested = 1 << (i % 32)
		}
		// The answer has bits that say why the feature is not as it was wanted.
		if why, err := ethtool(fd, dev, unsafe.Pointer(&set)); err != nil {
			return err
		} else if why != 0 {
			return fmt.Errorf("not changed: answer %#x", why)
		}
		return nil
	}
	return fmt.Errorf("no such feature")
}

// ethtool does one SIOCETHTOOL request.
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
