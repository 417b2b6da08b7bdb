//go:build linux

package udp

import (
	"encoding/binary"
	"math"
	"syscall"

	"golang.org/x/sys/unix"

	"gobtl/fabric/internal/inet"
)

const (
	// runSegmentsMost is the largest number of datagrams into which the kernel splits a message.
	// UDP_MAX_SEGMENTS has the value of runSegmentsMost in Linux 6.9 and later, and in older kernels
	// with long-term support.
	runSegmentsMost = 128
	// Every kernel with UDP_SEGMENT accepts messages of up to runSegmentsOld datagrams.
	runSegmentsOld = 64

	// gsoBytes is the size limit of segmentation offload for a network device that reports no limit
	// (GSO_LEGACY_MAX_SIZE in Linux).
	gsoBytes = 1 << 16
	// linkBytes is the length of the Ethernet header, which the segmentation offload limits of a
	// network device include.
	linkBytes = 14
)

// runBounds are the limits of the messages that the kernel splits into datagrams. A message of at
// most the size "bytes" is split by the network device. A message above the size "bytes", up to the
// largest IP packet, is split by the kernel in software.
type runBounds struct {
	bytes    uint64
	segments int
}

// deviceBounds are the segmentation offload limits that a network device reports.
type deviceBounds struct {
	bytes4, bytes6, segments uint64
}

// boundsOf returns the limits of segmentation offload for messages that are sent from the local
// address "l". The result of boundsOf also respects the limits of the loopback device, because
// messages to an address of this host go through the loopback device.
func boundsOf(l *inet.Local) runBounds {
	least := deviceBounds{math.MaxUint64, math.MaxUint64, math.MaxUint64}
	for index, d := range deviceBoundsAll() {
		if index == l.Index || d.loopback {
			least.bytes4 = min(least.bytes4, d.bytes4)
			least.bytes6 = min(least.bytes6, d.bytes6)
			least.segments = min(least.segments, d.segments)
		}
	}
	return least.runs(l.Version())
}

// The method "runs" returns, for an IP version, the size limit of one GSO send and the limit on its
// number of segments. If the device has reported no size limit, the size limit is derived from
// gsoBytes, Linux's default. If the device has reported no limit on the segments of one GSO send,
// the method "runs" uses runSegmentsMost.
func (d deviceBounds) runs(version int) runBounds {
	bytes, headers, most := d.bytes4, uint64(inet.Headers4Bytes), uint64(inet.MaxPayload4Bytes)
	if version == 6 {
		bytes, headers, most = d.bytes6, inet.Headers6Bytes, inet.MaxPayload6Bytes
	}
	if bytes == math.MaxUint64 {
		bytes = gsoBytes
	}
	room := uint64(0)
	if over := linkBytes + headers + 1; bytes > over {
		room = bytes - over
	}
	return runBounds{bytes: min(room, most), segments: int(min(d.segments, runSegmentsMost))}
}

// linkDevice describes a network device, with values that the kernel has reported.
type linkDevice struct {
	deviceBounds
	loopback bool
}

// deviceBoundsAll requests the list of all network devices from the kernel, and returns a map from
// a device's index to its linkDevice. If the query of the kernel fails, deviceBoundsAll returns
// nil.
func deviceBoundsAll() map[int]linkDevice {
	table, err := syscall.NetlinkRIB(syscall.RTM_GETLINK, syscall.AF_UNSPEC)
	if err != nil {
		return nil
	}
	messages, err := syscall.ParseNetlinkMessage(table)
	if err != nil {
		return nil
	}
	devices := make(map[int]linkDevice)
	for i := range messages {
		m := &messages[i]
		if m.Header.Type != syscall.RTM_NEWLINK || len(m.Data) < syscall.SizeofIfInfomsg {
			continue
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(m)
		if err != nil {
			continue
		}
		index := int(int32(binary.NativeEndian.Uint32(m.Data[4:])))
		flags := binary.NativeEndian.Uint32(m.Data[8:])
		devices[index] = linkDevice{boundsIn(attrs), flags&unix.IFF_LOOPBACK != 0}
	}
	return devices
}

// boundsIn reads the segmentation offload limits from the attributes of a network device. Linux
// before version 6.3 has only one size limit of segmentation offload, for both IPv4 and IPv6.
func boundsIn(attrs []syscall.NetlinkRouteAttr) deviceBounds {
	d := deviceBounds{math.MaxUint64, math.MaxUint64, math.MaxUint64}
	own4 := false
	for _, a := range attrs {
		if len(a.Value) < 4 {
			continue
		}
		switch v := uint64(binary.NativeEndian.Uint32(a.Value)); a.Attr.Type {
		case unix.IFLA_GSO_MAX_SIZE:
			d.bytes6 = v
		case unix.IFLA_GSO_IPV4_MAX_SIZE:
			d.bytes4, own4 = v, true
		case unix.IFLA_GSO_MAX_SEGS:
			d.segments = v
		}
	}
	if !own4 {
		d.bytes4 = d.bytes6
	}
	return d
}
