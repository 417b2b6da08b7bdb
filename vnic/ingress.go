package vnic

import (
	"errors"

	"gobtl/internal/mono"
)

// Ingress is the part of a port that receives frames from the fabric.
type Ingress struct {
	// Counts holds the counters of delivered and dropped frames. Accept counts only dropped frames,
	// because the device could refuse a frame that Accept has accepted. The caller of Accept must
	// count each frame that the device has taken, by Counts.CountRx.
	Counts Counts
	tables *Tables
	fdb    *FDB
	near   *Neighbours
	guard  Locker
	// If Down is true, the port's device is down, and Accept drops the frames for the device.
	Down bool
}

// NewIngress returns an Ingress that drops all frames until Host.SetTables is called. The arguments
// of NewIngress have the same meaning as the arguments of NewEgress with the same names.
func NewIngress(fdb *FDB, near *Neighbours, guard Locker) *Ingress {
	return &Ingress{fdb: fdb, near: near, guard: guard}
}

// Tables returns the tables in use, or nil before Host.SetTables.
func (in *Ingress) Tables() *Tables { return in.tables }

// Host decodes the packets that arrive at a host and finds the port of each packet. The index of a
// port in the field "ports" is the number of the port's virtual switch.
type Host struct {
	// Strangers counts the received packets that belong to no port of this host. Strangers includes
	// invalid packets, packets from unknown senders, and packets for a switch on which this host has
	// no port. As in Omni-Path, the counters of the port with the lowest number include the packets
	// that belong to no port of this host.
	Strangers Counts
	ports     [VESWMax + 1]*Ingress
}

// SetTables replaces a port's tables, and registers the port under the number of its switch. If t
// is nil, SetTables removes the port. If another port is registered under the previous switch of
// this port, SetTables does not change the registration of the other port.
func (h *Host) SetTables(in *Ingress, t *Tables) {
	if old := in.tables; old != nil && h.ports[old.Info.VESW&VESWMax] == in {
		h.ports[old.Info.VESW&VESWMax] = nil
	}
	in.tables = t
	if t != nil {
		h.ports[t.Info.VESW&VESWMax] = in
	}
}

// On reports whether this host has a port on the virtual switch with the given number.
func (h *Host) On(vesw uint16) bool { return vesw <= VESWMax && h.ports[vesw] != nil }

// Arrival is a frame that the caller must deliver to a device.
type Arrival struct {
	Port   *Ingress
	Header Header
	Info   FrameInfo
	Frame  []byte // part of the packet
}

// Accept checks a packet that arrived from the host with the LID "from", or from an unknown host if
// "from" is 0. If the result "ok" of Accept is true, the caller must deliver the frame in the
// result "a". If the result "ok" of Accept is false, the caller must drop the packet, which Accept
// has counted in the counter of the reason.
func (h *Host) Accept(now mono.Time, from uint32, packet []byte) (a Arrival, ok bool) {
	hdr, frame, err := Parse(packet)
	switch {
	case errors.Is(err, ErrRunt) || errors.Is(err, ErrShort):
		h.Strangers.DropRx(RxRunt)
		return a, false
	case err != nil:
		h.Strangers.DropRx(RxMalformed)
		return a, false
	case from == 0 || from != hdr.SLID:
		h.Strangers.DropRx(RxForged)
		return a, false
	}
	var in *Ingress
	if hdr.VESW <= VESWMax {
		in = h.ports[hdr.VESW]
	}
	if in == nil || in.tables == nil {
		h.Strangers.DropRx(RxBadVESW)
		return a, false
	}
	info, _ := Inspect(frame)
	if reason, bad := in.judge(&hdr, len(frame)); bad {
		in.Counts.DropRx(reason)
		return a, false
	}
	if hdr.FECN || hdr.BECN {
		in.Counts.countCongestion(&hdr)
	}
	if o := &in.tables.Options; o.Learning || o.Suppress {
		in.learn(now, from, frame, &info)
	}
	return Arrival{Port: in, Header: hdr, Info: info, Frame: frame}, true
}

// learn records which host has sent a frame with the source address of this frame, unless the MAC
// table from the manager has this address.
func (in *Ingress) learn(now mono.Time, from uint32, frame []byte, i *FrameInfo) {
	if in.guard != nil {
		in.guard.Lock()
		defer in.guard.Unlock()
	}
	t := in.tables
	if t.Options.Learning && !i.Src.Group() && i.Src != 0 {
		if _, ruled := t.MACs.Lookup(i.Src); !ruled && !in.fdb.Learn(now, i.Src, i.VLAN, from) {
			in.Counts[FDBRefused]++
		}
	}
	if t.Options.Suppress {
		in.near.learn(now, from, frame, i)
	}
}

// judge reports whether a packet must be dropped, and returns the counter for the reason.
func (in *Ingress) judge(h *Header, frameBytes int) (reason Counter, bad bool) {
	t := in.tables
	switch {
	case h.PKey != t.Info.PKey:
		return RxBadPKey, true
	case !t.Member(h.SLID):
		return RxNotMember, true
	case h.DLID != t.Info.EncapSLID && (h.DLID != t.Info.McastDLID || h.DLID == 0),
		h.SLID == t.Info.EncapSLID:
		return RxBadDLID, true
	case frameBytes > max(int(t.Info.EthMTU)+ethBytes+vlanBytes, FrameBytesMin):
		return RxOversize, true
	case !t.Forwarding():
		return RxDropState, true
	case in.Down:
		return RxEthDown, true
	}
	return 0, false
}
