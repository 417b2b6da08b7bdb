package vnic

import "gobtl/internal/mono"

// Verdict is the forwarding decision about a frame from the port's device.
type Verdict uint8

// The verdicts.
const (
	Dropped  Verdict = iota // the frame is dropped and counted
	Unicast                 // one packet is sent, to Decision.Header.DLID
	ToGroup                 // a packet to each member except this host
	Answered                // answered locally: Decision.Reply goes back to the device
)

// Decision has the verdict on a frame, and the encapsulation header for the frame's packets.
type Decision struct {
	Verdict Verdict
	VL      uint8 // virtual lane, for callers with a queue per lane
	Header  Header
	Info    FrameInfo
	Reply   []byte // valid if Answered, until the next Forward
}

// Egress forwards the frames from a port's device. A port with several transmit queues has one
// Egress for each queue, and all Egresses of a port use the same Tables.
type Egress struct {
	// Counts holds the counters of the frames from the device that this Egress has sent or dropped.
	Counts Counts
	tables *Tables
	fdb    *FDB
	near   *Neighbours
	guard  Locker
	group  bucket
	queues uint32
	reply  [replyBytesMax]byte
}

// Locker has the methods of sync.Locker.
type Locker interface {
	Lock()
	Unlock()
}

// NewEgress returns an Egress that drops all frames until SetTables is called. All Egresses and the
// Ingress of a port share the learned addresses in "fdb" and "near". The Egress holds the lock
// "guard" during every use of "fdb" and "near". The argument "guard" may be nil if only one
// goroutine uses "fdb" and "near". The argument "queues" of NewEgress is the number of Egresses
// that share the port's rate limit for group frames.
func NewEgress(fdb *FDB, near *Neighbours, guard Locker, queues int) *Egress {
	return &Egress{fdb: fdb, near: near, guard: guard, queues: uint32(max(queues, 1))}
}

// SetTables makes the Egress use the tables t instead of its previous tables. If t is nil, the
// Egress drops all frames.
func (e *Egress) SetTables(t *Tables) {
	e.tables = t
	if t != nil {
		e.group.configure(max(t.Options.GroupRate/e.queues, 1))
	}
}

// Tables returns the tables in use, or nil before SetTables.
func (e *Egress) Tables() *Tables { return e.tables }

// Forward decides what to do with a frame from the port's device. The slice "frame" may contain
// only the headers of the frame, and the argument "frameBytes" is the size of the whole frame.
// Forward counts a frame that it drops. A frame that Forward does not drop must be counted by the
// caller, with Counts.CountTx.
func (e *Egress) Forward(now mono.Time, frame []byte, frameBytes int) (d Decision) {
	return e.ForwardLarge(now, frame, frameBytes, 1)
}

// ForwardLarge works like Forward, for a large frame that will be split into the given number of
// frames. The argument "frameBytes" of ForwardLarge is the size of the largest of the frames into
// which the large frame will be split. If ForwardLarge drops a large frame, the counters count one
// dropped frame.
func (e *Egress) ForwardLarge(now mono.Time, frame []byte, frameBytes, frames int) (d Decision) {
	return e.forward(now, frame, frameBytes, frames, true)
}

// ForwardToOne works like Forward, but drops a frame that would go to all members. A frame that
// ForwardToOne drops because it would go to all members does not count towards the rate limit of
// group frames, and is counted as a frame without a destination (TxDLIDZero). ForwardToOne is meant
// for frames that this host sends in response to frames of other members, so that no member can
// make this host send frames to all members.
func (e *Egress) ForwardToOne(now mono.Time, frame []byte, frameBytes int) (d Decision) {
	return e.forward(now, frame, frameBytes, 1, false)
}

// The method "forward" decides what to do with a frame. If the argument "toGroup" is false, the
// method "forward" drops a frame that would go to all members.
func (e *Egress) forward(now mono.Time, frame []byte, frameBytes, frames int, toGroup bool,
) (d Decision) {
	info, ok := Inspect(frame)
	t := e.tables
	switch {
	case !ok:
		e.Counts.DropTx(TxLogic)
		return d
	case t == nil || !t.Forwarding():
		e.Counts.DropTx(TxDropState)
		return d
	case frameBytes > int(t.Info.EthMTU)+ethBytes+vlanBytes:
		e.Counts.DropTx(TxOversize)
		return d
	}
	d.Info = info
	if t.Options.Suppress || t.Options.Learning {
		if e.guard != nil {
			e.guard.Lock()
			defer e.guard.Unlock()
		}
	}
	if t.Options.Suppress {
		if n := e.near.answer(now, frame, &d.Info, e.reply[:]); n > 0 {
			e.Counts[TxSuppressed]++
			d.Verdict, d.Reply = Answered, e.reply[:n]
			return d
		}
	}
	dlid, verdict := e.route(now, t, &d.Info)
	switch {
	case verdict != ToGroup:
	case !toGroup:
		e.Counts.DropTx(TxDLIDZero)
		verdict = Dropped
	case !e.group.take(now, frames):
		e.Counts.DropTx(TxStorm)
		verdict = Dropped
	}
	if verdict == Dropped {
		return d
	}
	d.Verdict = verdict
	e.header(&d, t, dlid)
	return d
}

// The method "route" applies the first forwarding rule that matches a frame, and returns the LID of
// the destination.
func (e *Egress) route(now mono.Time, t *Tables, i *FrameInfo) (dlid uint32, v Verdict) {
	dlid, found := t.MACs.Lookup(i.Dst)
	if !found && t.Options.Learning && !i.Dst.Group() {
		dlid, found = e.fdb.Lookup(now, i.Dst, i.VLAN)
	}
	switch {
	case found:
	case i.Dst.Group():
		if t.Info.McastDLID == 0 {
			e.Counts.DropTx(TxDLIDZero)
			return 0, Dropped
		}
		return t.Info.McastDLID, ToGroup
	case i.Dst.Local() && t.Member(i.Dst.LID()):
		dlid = i.Dst.LID()
	default:
		dlid, found = t.router(i.Entropy())
		if !found && t.Options.Flood && t.Info.McastDLID != 0 {
			return t.Info.McastDLID, ToGroup
		}
		if !found && i.Dst.Local() {
			dlid = i.Dst.LID() // unknown host: counted below as TxNoPeer
		}
	}
	switch {
	case dlid == 0:
		e.Counts.DropTx(TxDLIDZero)
	case dlid == t.Info.EncapSLID:
		e.Counts.DropTx(TxSelf)
	case !t.Member(dlid):
		e.Counts.DropTx(TxNoPeer)
	default:
		return dlid, Unicast
	}
	return 0, Dropped
}

// The method "header" fills in the encapsulation header for a frame's packets.
func (e *Egress) header(d *Decision, t *Tables, dlid uint32) {
	p := &t.Info
	d.Header = Header{
		SLID: p.EncapSLID, DLID: dlid, VESW: p.VESW, PKey: p.PKey,
		Entropy: uint16(d.Info.Entropy()), RC: p.rcOf(d.Info.Class),
	}
	group := d.Info.Dst.Group()
	switch {
	case d.Info.Tagged && group:
		d.Header.SC, d.VL = p.PCPToSCMulti[d.Info.PCP], p.PCPToVLMulti[d.Info.PCP]
	case d.Info.Tagged:
		d.Header.SC, d.VL = p.PCPToSCUni[d.Info.PCP], p.PCPToVLUni[d.Info.PCP]
	case group:
		d.Header.SC, d.VL = p.SCMulti, p.VLMulti
	default:
		d.Header.SC, d.VL = p.SCUni, p.VLUni
	}
}
