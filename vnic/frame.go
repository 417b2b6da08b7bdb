package vnic

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

var be = binary.BigEndian

// MAC is an Ethernet address. The first octet of a MAC address is in bits 40 to 47.
type MAC uint64

// The constants below are flag bits in the first octet of a MAC address.
const (
	macGroupBit = MAC(1) << 40
	macLocalBit = MAC(2) << 40
	// Broadcast is the broadcast address ff:ff:ff:ff:ff:ff.
	Broadcast = MAC(1<<48 - 1)

	macBytes = 6
)

// MACOf reads an address from six octets.
func MACOf(b []byte) MAC {
	return MAC(be.Uint16(b))<<32 | MAC(be.Uint32(b[2:]))
}

type macError struct{ text string }

func (e *macError) Error() string {
	return fmt.Sprintf("%q is no MAC address such as 02:00:00:00:00:01", e.text)
}

// Unwrap returns ErrRange.
func (*macError) Unwrap() error { return ErrRange }

// ParseMAC parses an address in the notation "02:00:00:00:00:01". The errors of ParseMAC wrap
// ErrRange.
func ParseMAC(s string) (MAC, error) {
	parts := strings.Split(s, ":")
	var m MAC
	for _, p := range parts {
		v, err := strconv.ParseUint(p, 16, 8)
		if err != nil || len(p) != 2 || len(parts) != macBytes {
			return 0, &macError{s}
		}
		m = m<<8 | MAC(v)
	}
	return m, nil
}

// Put writes the six octets to b.
func (m MAC) Put(b []byte) {
	be.PutUint16(b, uint16(m>>32))
	be.PutUint32(b[2:], uint32(m))
}

// Bytes returns the six octets.
func (m MAC) Bytes() []byte {
	b := make([]byte, macBytes)
	m.Put(b)
	return b
}

func (m MAC) String() string {
	b := m.Bytes()
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5])
}

// Group reports whether the address is a multicast or broadcast address.
func (m MAC) Group() bool { return m&macGroupBit != 0 }

// Local reports whether the address is locally administered.
func (m MAC) Local() bool { return m&macLocalBit != 0 }

// LID returns the LID in the last three octets of a locally administered address.
func (m MAC) LID() uint32 { return uint32(m&0xFF<<16 | m&0xFF00 | m>>16&0xFF) }

// MACFor makes the address of a port from the number of its switch and the LID of its host. The
// address of a port is 02:0v:vv:ll:ll:ll, with the switch's number in vvv, and the LID in ll:ll:ll,
// lowest octet first.
func MACFor(vesw uint16, lid uint32) MAC {
	return macLocalBit | MAC(vesw&VESWMax)<<24 |
		MAC(lid&0xFF)<<16 | MAC(lid&0xFF00) | MAC(lid>>16&0xFF)
}

// RCClass is a class of frames that has its own three bits in the routing control (the value "rc")
// of a switch.
type RCClass uint8

// The classes, in the order of their bits in rc.
const (
	RCDefault RCClass = iota
	RCIPv4
	RCIPv4UDP
	RCIPv4TCP
	RCIPv6
	RCIPv6TCP
	RCIPv6UDP
)

// EtherTypes, IP protocol numbers and header sizes.
const (
	typeIPv4 = 0x0800
	typeARP  = 0x0806
	typeIPv6 = 0x86DD
	typeVLAN = 0x8100
	typeQinQ = 0x88A8

	protoTCP    = 6
	protoUDP    = 17
	protoICMPv6 = 58

	ethBytes  = 14
	vlanBytes = 4
)

// FrameInfo holds those header fields of a frame on which the forwarding decision depends.
type FrameInfo struct {
	Dst, Src MAC
	Type     uint16 // EtherType after the VLAN tag, if there is a tag
	VLAN     uint16 // 0 to 4095; 0 if there is no tag
	PCP      uint8  // priority in the tag
	Tagged   bool
	Class    RCClass
	L3       int    // offset of the payload in the frame
	Hash     uint32 // hash of the flow
}

// Inspect parses the headers of a frame. The result "ok" of Inspect is true if the frame has at
// least 14 bytes, and otherwise false. Inspect treats a truncated IP or VLAN header as absent.
func Inspect(f []byte) (i FrameInfo, ok bool) {
	if len(f) < ethBytes {
		return i, false
	}
	i.Dst, i.Src = MACOf(f), MACOf(f[6:])
	i.Type, i.L3 = be.Uint16(f[12:]), ethBytes
	if (i.Type == typeVLAN || i.Type == typeQinQ) && len(f) >= ethBytes+vlanBytes {
		tci := be.Uint16(f[14:])
		i.VLAN, i.PCP, i.Tagged = tci&0xFFF, uint8(tci>>13), true
		i.Type, i.L3 = be.Uint16(f[16:]), ethBytes+vlanBytes
	}
	hash := mix(uint64(i.Dst)<<16^uint64(i.Src), uint64(i.VLAN))
	switch i.Type {
	case typeIPv4:
		hash = i.ipv4(f[i.L3:], hash)
	case typeIPv6:
		hash = i.ipv6(f[i.L3:], hash)
	}
	i.Hash = uint32(hash ^ hash>>32)
	return i, true
}

// Entropy is the exclusive or of the four bytes of the flow's hash.
func (i *FrameInfo) Entropy() uint8 {
	h := i.Hash ^ i.Hash>>16
	return uint8(h ^ h>>8)
}

func (i *FrameInfo) ipv4(p []byte, hash uint64) uint64 {
	const headerBytes = 20
	if len(p) < headerBytes || p[0]>>4 != 4 {
		return hash
	}
	i.Class = RCIPv4
	hash = mix(hash, be.Uint64(p[12:]))
	// The flow hash of an IP fragment uses only the IP addresses, because only the first fragment
	// contains the ports.
	if be.Uint16(p[6:])&0x3FFF != 0 {
		return hash
	}
	at := int(p[0]&0xF) * 4
	switch p[9] {
	case protoTCP:
		i.Class = RCIPv4TCP
	case protoUDP:
		i.Class = RCIPv4UDP
	default:
		return hash
	}
	return ports(p, at, hash)
}

func (i *FrameInfo) ipv6(p []byte, hash uint64) uint64 {
	const headerBytes = 40
	if len(p) < headerBytes || p[0]>>4 != 6 {
		return hash
	}
	i.Class = RCIPv6
	for at := 8; at < headerBytes; at += 8 {
		hash = mix(hash, be.Uint64(p[at:]))
	}
	switch p[6] {
	case protoTCP:
		i.Class = RCIPv6TCP
	case protoUDP:
		i.Class = RCIPv6UDP
	default:
		return hash
	}
	return ports(p, headerBytes, hash)
}

func ports(p []byte, at int, hash uint64) uint64 {
	if at < 20 || len(p) < at+4 {
		return hash
	}
	return mix(hash, uint64(be.Uint32(p[at:])))
}

func mix(h, v uint64) uint64 {
	const odd = 0x9E3779B97F4A7C15
	h = (h ^ v) * odd
	return h ^ h>>29
}
