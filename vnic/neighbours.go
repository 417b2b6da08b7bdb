package vnic

import "gobtl/internal/mono"

// Neighbours holds who has which IP address, as ARP and neighbour advertisements have told, so that
// a port can answer its own device's questions instead of asking all members.
type Neighbours struct {
	byIP map[nearKey]nearValue
}

type nearKey struct {
	ip   [16]byte // of IPv4 the first four
	vlan uint16
}

type nearValue struct {
	mac  MAC
	seen mono.Time
}

const (
	neighboursMax = 4096
	// nearSeconds is how long an answer may be given for another: hosts confirm theirs about as often.
	nearSeconds = 30

	arpBytes      = 28
	arpRequest    = 1
	arpReply      = 2
	ip6Bytes      = 40
	neighbourAsk  = 135 // ICMPv6
	neighbourTell = 136
	neighbourLen  = 32 // with one option of 8 bytes
	replyBytesMax = ethBytes + vlanBytes + ip6Bytes + neighbourLen
)

// learn notes what a frame from the fabric tells.
func (n *Neighbours) learn(now mono.Time, f []byte, i *FrameInfo) {
	p := f[i.L3:]
	switch {
	case i.Type == typeARP && isARP(p):
		n.note(now, ip4(p[14:]), i.VLAN, MACOf(p[8:]), i.Src)
	case i.Type == typeIPv6 && isNeighbour(p, neighbourTell) && p[ip6Bytes+24] == 2:
		n.note(now, [16]byte(p[ip6Bytes+8:]), i.VLAN, MACOf(p[ip6Bytes+26:]), i.Src)
	}
}

// note keeps an address; the one in the message must be that of the frame, or anybody could speak
// for anybody.
func (n *Neighbours) note(now mono.Time, ip [16]byte, vlan uint16, m, src MAC) {
	if m != src || m.Group() || m == 0 || ip == ([16]byte{}) {
		return
	}
	if n.byIP == nil {
		n.byIP = make(map[nearKey]nearValue)
	}
	key := nearKey{ip, vlan}
	if _, known := n.byIP[key]; !known && len(n.byIP) >= neighboursMax {
		for k, v := range n.byIP {
			if now.Sub(v.seen).Seconds() > nearSeconds {
				delete(n.byIP, k)
			}
		}
		if len(n.byIP) >= neighboursMax {
			return
		}
	}
	n.byIP[key] = nearValue{m, now}
}

// answer writes the answer to a question for a known address to out, and returns its size; 0 if
// there is none.
func (n *Neighbours) answer(now mono.Time, f []byte, i *FrameInfo, out []byte, _ Options) int {
	p := f[i.L3:]
	var ip [16]byte
	switch {
	case i.Type == typeARP && isARP(p) && be.Uint16(p[6:]) == arpRequest && i.Dst == Broadcast:
		ip = ip4(p[24:])
		if ip == ip4(p[14:]) || be.Uint32(p[14:]) == 0 {
			return 0 // an announcement or a probe is for all to hear
		}
	case i.Type == typeIPv6 && isNeighbour(p, neighbourAsk) && i.Dst.Group():
		ip = [16]byte(p[ip6Bytes+8:])
		if [16]byte(p[8:24]) == ([16]byte{}) {
			return 0
		}
	default:
		return 0
	}
	v, ok := n.byIP[nearKey{ip, i.VLAN}]
	if !ok || now.Sub(v.seen).Seconds() > nearSeconds {
		return 0
	}
	i.Src.Put(out)
	v.mac.Put(out[6:])
	copy(out[12:i.L3], f[12:i.L3])
	if i.Type == typeARP {
		return i.L3 + answerARP(out[i.L3:], p, v.mac)
	}
	return i.L3 + answerNeighbour(out[i.L3:], p, v.mac)
}

func ip4(b []byte) (ip [16]byte) {
	copy(ip[:], b[:4])
	return ip
}

func isARP(p []byte) bool {
	return len(p) >= arpBytes && be.Uint64(p)>>16 == 0x000108000604 && p[7] >= arpRequest &&
		p[7] <= arpReply && p[6] == 0
}

// isNeighbour tells a neighbour message with its option, if it is an advertisement.
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

func answerNeighbour(out, ask []byte, mac MAC) int {
	copy(out, ask[:ip6Bytes])
	be.PutUint16(out[4:], neighbourLen)
	copy(out[8:24], ask[ip6Bytes+8:ip6Bytes+24])
	copy(out[24:40], ask[8:24])
	icmp := out[ip6Bytes : ip6Bytes+neighbourLen]
	clear(icmp)
	icmp[0], icmp[4] = neighbourTell, 0x60 // solicited, override
	copy(icmp[8:24], ask[ip6Bytes+8:ip6Bytes+24])
	icmp[24], icmp[25] = 2, 1 // target's link-layer address, 8 bytes
	mac.Put(icmp[26:])
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
