package vnic

import (
	"slices"

	"gobtl/internal/mono"
)

// Neighbours maps IP addresses to MAC addresses. A port learns which MAC address belongs to an IP
// address from ARP messages and neighbour advertisements. A port uses its Neighbours to answer the
// ARP and neighbour requests of its own device, so that the port need not send these requests to
// all members of the switch.
type Neighbours struct {
	byIP  shares[nearKey, nearValue]
	swept mono.Time
}

type nearKey struct {
	ip   [16]byte // an IPv4 address is in the first four bytes
	vlan uint16
}

type nearValue struct {
	mac    MAC
	lid    uint32 // LID of the host that sent the message
	router bool   // the neighbour is a router
	seen   mono.Time
	// The field "told" of a nearValue lists the devices that should already know the neighbour's MAC
	// address. The port adds a device to "told" when the port answers the device's request, or when
	// the device asks the neighbour directly. If a device in "told" repeats its broadcast request, the
	// port sends this request to all members of the switch, because the repetition suggests that the
	// device could not reach the neighbour. The next ARP message or advertisement from the neighbour
	// clears "told".
	told [toldMax]MAC
}

// tell adds a device to the list "told", and returns true. If the device is already in the list
// "told", or if the list is full, the method "tell" returns false.
func (v *nearValue) tell(asker MAC) bool {
	i := slices.IndexFunc(v.told[:], func(mac MAC) bool { return mac == asker || mac == 0 })
	if i < 0 || v.told[i] == asker {
		return false
	}
	v.told[i] = asker
	return true
}

func (v nearValue) owner() uint32 { return v.lid }

const (
	neighboursMax = 4096
	// toldMax is the maximum number of devices whose requests for a neighbour's address a port answers
	// between two messages of this neighbour.
	toldMax = 8
	// nearSeconds is the number of seconds after a neighbour's latest message during which a port
	// answers requests in place of the neighbour.
	nearSeconds = 30

	arpBytes      = 28
	arpRequest    = 1
	arpReply      = 2
	ip6Bytes      = 40
	neighbourAsk  = 135 // ICMPv6
	neighbourTell = 136
	neighbourLen  = 32 // with one option of 8 bytes

	neighbourRouter    = 0x80
	neighbourSolicited = 0x40
	neighbourOverride  = 0x20

	replyBytesMax = ethBytes + vlanBytes + ip6Bytes + neighbourLen
)

// The function "claims" returns the IP address that the sender of an ARP or neighbour message is
// about to use. The result of "claims" is the target of an ARP probe or announcement, of a
// duplicate address detection, or of a neighbour advertisement.
func claims(p []byte, i *FrameInfo) (ip [16]byte, ok bool) {
	switch {
	case i.Type == typeARP && isARP(p):
		sender, target := be.Uint32(p[14:]), be.Uint32(p[24:])
		return ip4(p[24:]), sender == 0 || sender == target
	case i.Type == typeIPv6 && isNeighbour(p, neighbourAsk):
		return [16]byte(p[ip6Bytes+8:]), [16]byte(p[8:24]) == ([16]byte{})
	case i.Type == typeIPv6 && isNeighbour(p, neighbourTell):
		return [16]byte(p[ip6Bytes+8:]), true
	}
	return ip, false
}

// Owner returns the IP address and the MAC address of the sender of an ARP message or of a
// neighbour advertisement. The IP address that Owner returns has 4 or 16 bytes and is a part of f.
// The result "ok" of Owner is false for a frame of a different kind, and for a message in which the
// MAC address differs from the source address of the frame.
func Owner(f []byte, i *FrameInfo) (ip []byte, mac MAC, ok bool) {
	p := f[i.L3:]
	switch {
	case i.Type == typeARP && isARP(p):
		ip, mac = p[14:18], MACOf(p[8:])
		return ip, mac, mac == i.Src && be.Uint32(ip) != 0
	case i.Type == typeIPv6 && isNeighbour(p, neighbourTell) && p[ip6Bytes+24] == 2:
		ip, mac = p[ip6Bytes+8:ip6Bytes+24], MACOf(p[ip6Bytes+26:])
		return ip, mac, mac == i.Src
	}
	return nil, 0, false
}

// The method "forget" removes the entry of an IP address when a host is about to use this address,
// because the entry can contain the MAC address of a different host.
func (n *Neighbours) forget(p []byte, i *FrameInfo) {
	ip, ok := claims(p, i)
	key := nearKey{ip, i.VLAN}
	if old, known := n.byIP.rows[key]; ok && known {
		delete(n.byIP.rows, key)
		n.byIP.release(old.lid)
	}
}

// learn records the IP and MAC addresses in an ARP message or neighbour advertisement that arrived
// from another host.
func (n *Neighbours) learn(now mono.Time, from uint32, f []byte, i *FrameInfo) {
	p := f[i.L3:]
	n.forget(p, i)
	v := nearValue{lid: from, seen: now}
	switch {
	case i.Type == typeARP && isARP(p):
		v.mac = MACOf(p[8:])
		n.note(nearKey{ip4(p[14:]), i.VLAN}, v, i.Src)
	case i.Type == typeIPv6 && isNeighbour(p, neighbourTell) && p[ip6Bytes+24] == 2:
		v.mac, v.router = MACOf(p[ip6Bytes+26:]), p[ip6Bytes+4]&neighbourRouter != 0
		n.note(nearKey{[16]byte(p[ip6Bytes+8:]), i.VLAN}, v, i.Src)
	}
}

// The method "note" records the MAC address that belongs to an IP address. note ignores a message
// whose MAC address differs from the source address of the frame, because a host must not claim an
// IP address for a different host.
func (n *Neighbours) note(key nearKey, v nearValue, src MAC) {
	if v.mac != src || v.mac.Group() || v.mac == 0 || key.ip == ([16]byte{}) {
		return
	}
	if _, known := n.byIP.rows[key]; !known {
		full := len(n.byIP.rows) >= neighboursMax
		if full && (n.swept == 0 || v.seen.Sub(n.swept) >= sweepEvery) {
			n.swept = v.seen
			n.byIP.drop(func(_ nearKey, old nearValue) bool {
				return v.seen.Sub(old.seen).Seconds() <= nearSeconds
			})
		}
		if !n.byIP.room(v.lid, neighboursMax) {
			return
		}
	}
	n.byIP.put(key, v)
}

// The method "answer" handles an ARP or neighbour request of the port's own device. If the
// requested address is known, the method "answer" writes the reply to the slice "out", and returns
// the size of the reply. If the requested address is unknown, the method "answer" returns 0.
func (n *Neighbours) answer(now mono.Time, f []byte, i *FrameInfo, out []byte) int {
	p := f[i.L3:]
	n.forget(p, i)
	var ip [16]byte
	switch {
	case i.Type == typeARP && isARP(p) && be.Uint16(p[6:]) == arpRequest:
		ip = ip4(p[24:])
		if ip == ip4(p[14:]) || be.Uint32(p[14:]) == 0 {
			return 0 // an announcement or a probe goes to all members
		}
	case i.Type == typeIPv6 && isNeighbour(p, neighbourAsk):
		ip = [16]byte(p[ip6Bytes+8:])
		if [16]byte(p[8:24]) == ([16]byte{}) {
			return 0
		}
	default:
		return 0
	}
	key := nearKey{ip, i.VLAN}
	v, ok := n.byIP.rows[key]
	if !ok || now.Sub(v.seen).Seconds() > nearSeconds {
		return 0
	}
	first := v.tell(i.Src)
	n.byIP.rows[key] = v
	if !first || !i.Dst.Group() {
		return 0
	}
	i.Src.Put(out)
	v.mac.Put(out[6:])
	copy(out[12:i.L3], f[12:i.L3])
	if i.Type == typeARP {
		return i.L3 + answerARP(out[i.L3:], p, v.mac)
	}
	return i.L3 + answerNeighbour(out[i.L3:], p, &v)
}

func ip4(b []byte) (ip [16]byte) {
	copy(ip[:], b[:4])
	return ip
}

func isARP(p []byte) bool {
	return len(p) >= arpBytes && be.Uint64(p)>>16 == 0x000108000604 && p[7] >= arpRequest &&
		p[7] <= arpReply && p[6] == 0
}

// isNeighbour reports whether p is a neighbour message of the given ICMPv6 type. For an
// advertisement, isNeighbour requires the option with the link-layer address.
func isNeighbour(p []byte, kind byte) bool {
	least := ip6Bytes + 24
	if kind == neighbourTell {
		least = ip6Bytes + neighbourLen
	}
	return len(p) >= least && p[0]>>4 == 6 && p[6] == protoICMPv6 && p[7] == 255 &&
		p[ip6Bytes] == kind && p[ip6Bytes+1] == 0
}

func answerARP(out, ask []byte, mac MAC) int {
	copy(out, ask[:6])
	be.PutUint16(out[6:], arpReply)
	mac.Put(out[8:])
	copy(out[14:18], ask[24:28])
	copy(out[18:28], ask[8:18])
	return arpBytes
}

// answerNeighbour writes a neighbour advertisement to the slice "out". The advertisement of a
// router has the router flag, because a device that gets an advertisement without the router flag
// drops its routes through the router.
func answerNeighbour(out, ask []byte, v *nearValue) int {
	copy(out, ask[:ip6Bytes])
	be.PutUint16(out[4:], neighbourLen)
	copy(out[8:24], ask[ip6Bytes+8:ip6Bytes+24])
	copy(out[24:40], ask[8:24])
	icmp := out[ip6Bytes : ip6Bytes+neighbourLen]
	clear(icmp)
	icmp[0], icmp[4] = neighbourTell, neighbourSolicited|neighbourOverride
	if v.router {
		icmp[4] |= neighbourRouter
	}
	copy(icmp[8:24], ask[ip6Bytes+8:ip6Bytes+24])
	icmp[24], icmp[25] = 2, 1 // target's link-layer address, 8 bytes
	v.mac.Put(icmp[26:])
	sum := uint32(neighbourLen) + protoICMPv6
	for at := 8; at < ip6Bytes+neighbourLen; at += 2 {
		sum += uint32(be.Uint16(out[at:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xFFFF + sum>>16
	}
	be.PutUint16(icmp[2:], ^uint16(sum))
	return ip6Bytes + neighbourLen
}
