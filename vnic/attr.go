package vnic

import "fmt"

// The constants below are sizes in bytes. MACEntriesPerMsg, MACsPerMsg and MembersPerMsg are the
// largest numbers of MAC table rows, of MAC addresses and of LIDs that fit in one management
// message.
const (
	macHeaderBytes    = 8
	macEntryBytes     = 16
	MACEntriesPerMsg  = (DataBytesMax - macHeaderBytes) / macEntryBytes // 125
	listHeaderBytes   = 8
	MACsPerMsg        = (DataBytesMax - listHeaderBytes) / macBytes // 333
	memberBytes       = 4
	MembersPerMsg     = DataBytesMax / memberBytes
	classPortBytes    = 80
	trapBytes         = 16
	optionsBytes      = 16
	summaryBytes      = 360
	errorBytes        = 304
	counterHeadBytes  = 8
	responseTimeCode  = 18
	classPortMaskBits = 1 | VportMax<<8
)

func malformed(what string, n int) error {
	return fmt.Errorf("%w: %s of %d bytes", ErrAttribute, what, n)
}

// AppendClassPortInfo appends the attribute with the capabilities of an agent to b. The
// capabilities of an agent are the support of traps, the largest number of ports, and the response
// time code, which stands for 4.096 us * 2^18.
func AppendClassPortInfo(b []byte) []byte {
	b = append(b, mgmtBaseVersion, mgmtClassVersion)
	b = be.AppendUint16(b, classPortMaskBits)
	b = be.AppendUint32(b, responseTimeCode)
	return append(b, make([]byte, classPortBytes-8)...)
}

// MACEntries is the attribute with consecutive rows of a port's MAC table.
type MACEntries struct {
	Offset uint16
	Num    uint16 // length of Rows; in a Get the number of requested rows
	Digest uint32
	Rows   []MACEntry
}

// Append appends the encoded MACEntries to b. The field Rows must have at most MACEntriesPerMsg
// elements.
func (a *MACEntries) Append(b []byte) []byte {
	b = be.AppendUint16(b, a.Offset)
	b = be.AppendUint16(b, a.Num)
	b = be.AppendUint32(b, a.Digest)
	for _, e := range a.Rows {
		var row [macEntryBytes]byte
		e.MAC.Put(row[:])
		e.Mask.Put(row[6:])
		be.PutUint32(row[12:], e.DLID<<8|uint32(e.SD))
		b = append(b, row[:]...)
	}
	return b
}

// ParseMACEntries decodes the output of MACEntries.Append.
func ParseMACEntries(b []byte) (a MACEntries, err error) {
	if len(b) < macHeaderBytes || len(b) > DataBytesMax {
		return a, malformed("MAC entries", len(b))
	}
	a.Offset, a.Num, a.Digest = be.Uint16(b), be.Uint16(b[2:]), be.Uint32(b[4:])
	rows := b[macHeaderBytes:]
	if len(rows)%macEntryBytes != 0 || len(rows) > 0 && len(rows)/macEntryBytes != int(a.Num) ||
		int(a.Offset)+int(a.Num) > MACEntriesMax || int(a.Num) > MACEntriesPerMsg {
		return a, malformed("MAC entries", len(b))
	}
	for ; len(rows) > 0; rows = rows[macEntryBytes:] {
		ds := be.Uint32(rows[12:])
		a.Rows = append(a.Rows, MACEntry{
			MAC: MACOf(rows), Mask: MACOf(rows[6:]), DLID: ds >> 8, SD: uint8(ds),
		})
	}
	return a, nil
}

// MACList is the attribute with a part of a device's list of unicast or multicast addresses. The
// part begins at the index Start.
type MACList struct {
	Start, Num, Total, Generation uint16
	MACs                          []MAC // empty in a Get
}

// Append appends the encoded MACList to b. The field MACs must have at most MACsPerMsg elements.
func (a *MACList) Append(b []byte) []byte {
	b = be.AppendUint16(b, a.Start)
	b = be.AppendUint16(b, a.Num)
	b = be.AppendUint16(b, a.Total)
	b = be.AppendUint16(b, a.Generation)
	for _, m := range a.MACs {
		b = append(b, m.Bytes()...)
	}
	return b
}

// ParseMACList decodes the output of MACList.Append.
func ParseMACList(b []byte) (a MACList, err error) {
	if len(b) < listHeaderBytes || len(b) > DataBytesMax {
		return a, malformed("MAC list", len(b))
	}
	a.Start, a.Num = be.Uint16(b), be.Uint16(b[2:])
	a.Total, a.Generation = be.Uint16(b[4:]), be.Uint16(b[6:])
	rows := b[listHeaderBytes:]
	if len(rows)%macBytes != 0 || len(rows) > 0 && len(rows)/macBytes != int(a.Num) ||
		int(a.Num) > MACsPerMsg {
		return a, malformed("MAC list", len(b))
	}
	for ; len(rows) > 0; rows = rows[macBytes:] {
		a.MACs = append(a.MACs, MACOf(rows))
	}
	return a, nil
}

// Trap is an unsolicited notification from an agent to its managers.
type Trap struct {
	FabricID uint16
	VESW     uint16
	Port     uint32
	OPAPort  uint16
	Index    uint8
	Opcode   uint8
}

// The opcodes of traps.
const (
	TrapUnicast   = 1 // the list of unicast addresses has changed
	TrapMulticast = 2
	TrapLink      = 3 // the link has gone up or down
)

// Append appends the bytes of a trap.
func (t *Trap) Append(b []byte) []byte {
	b = be.AppendUint16(b, t.FabricID)
	b = be.AppendUint16(b, t.VESW)
	b = be.AppendUint32(b, t.Port)
	b = be.AppendUint16(b, t.OPAPort)
	return append(b, t.Index, t.Opcode, 0, 0, 0, 0)
}

// ParseTrap decodes the output of Trap.Append.
func ParseTrap(b []byte) (t Trap, err error) {
	if len(b) != trapBytes || be.Uint32(b[12:]) != 0 || b[11] < TrapUnicast || b[11] > TrapLink {
		return t, malformed("trap", len(b))
	}
	return Trap{
		FabricID: be.Uint16(b), VESW: be.Uint16(b[2:]), Port: be.Uint32(b[4:]),
		OPAPort: be.Uint16(b[8:]), Index: b[10], Opcode: b[11],
	}, nil
}

// The flags of Options on the wire.
const (
	optCut = 1 << iota
	optLearning
	optFlood
	optSuppress
	optAll = optCut | optLearning | optFlood | optSuppress
)

// Append appends the encoded Options to b.
func (o *Options) Append(b []byte) []byte {
	var flags byte
	for _, f := range []struct {
		set bool
		bit byte
	}{{o.Cut, optCut}, {o.Learning, optLearning}, {o.Flood, optFlood}, {o.Suppress, optSuppress}} {
		if f.set {
			flags |= f.bit
		}
	}
	b = append(b, byte(o.Carrier), flags)
	b = be.AppendUint16(b, o.AgeingSeconds)
	b = be.AppendUint32(b, o.LearnedMax)
	b = be.AppendUint32(b, o.GroupRate)
	return append(b, 0, 0, 0, 0)
}

// ParseOptions decodes the output of Options.Append, and checks the range of each value.
func ParseOptions(b []byte) (o Options, err error) {
	if len(b) != optionsBytes || be.Uint32(b[12:]) != 0 || b[0] > byte(CarrierFragment) ||
		b[1]&^optAll != 0 {
		return o, malformed("options", len(b))
	}
	o = Options{
		Carrier: Carrier(b[0]), Cut: b[1]&optCut != 0, Learning: b[1]&optLearning != 0,
		Flood: b[1]&optFlood != 0, Suppress: b[1]&optSuppress != 0,
		AgeingSeconds: be.Uint16(b[2:]), LearnedMax: be.Uint32(b[4:]), GroupRate: be.Uint32(b[8:]),
	}
	if o.LearnedMax > FDBEntriesMax {
		return o, fmt.Errorf("%w: learned_max is %d, at most %d", ErrTable, o.LearnedMax, FDBEntriesMax)
	}
	return o, nil
}

// AppendMembers appends a part of a switch's list of members, at most MembersPerMsg LIDs, to b.
func AppendMembers(b []byte, lids []uint32) []byte {
	for _, l := range lids {
		b = be.AppendUint32(b, l)
	}
	return b
}

// ParseMembers decodes the output of AppendMembers.
func ParseMembers(b []byte) (lids []uint32, err error) {
	if len(b)%memberBytes != 0 || len(b) > DataBytesMax {
		return nil, malformed("members", len(b))
	}
	for ; len(b) > 0; b = b[memberBytes:] {
		lid := be.Uint32(b)
		if lid == 0 || lid > LIDMax {
			return nil, fmt.Errorf("%w: member with LID %d", ErrTable, lid)
		}
		lids = append(lids, lid)
	}
	return lids, nil
}

// The constant "reserved" stands for eight reserved bytes in summaryCounters and errorCounters.
const reserved = numCounters

var summaryCounters = func() []Counter {
	all := make([]Counter, 0, 44)
	for c := TxErrors; c <= Rx1519; c++ {
		all = append(all, c)
	}
	return all
}()

var errorCounters = []Counter{
	TxErrors, RxErrors, reserved, TxSMACFilter, reserved, reserved, reserved, TxDLIDZero, reserved,
	TxLogic, reserved, TxDropState, RxBadVESW, reserved, RxRunt, RxOversize, reserved, RxEthDown,
	RxDropState, RxLogic, reserved,
}

// AppendSummary appends the attribute with the summary counters of a port to b.
func AppendSummary(b []byte, vesw uint16, port uint32, c *Counts) []byte {
	return appendCounters(b, vesw, port, c, summaryCounters, summaryBytes)
}

// AppendErrors appends the error counters of a port.
func AppendErrors(b []byte, vesw uint16, port uint32, c *Counts) []byte {
	return appendCounters(b, vesw, port, c, errorCounters, errorBytes)
}

func appendCounters(
	b []byte, vesw uint16, port uint32, c *Counts, list []Counter, size int,
) []byte {
	start := len(b)
	b = append(b, make([]byte, size)...)
	out := b[start:]
	be.PutUint16(out[2:], vesw)
	be.PutUint32(out[4:], port)
	for i, counter := range list {
		if counter != reserved {
			be.PutUint64(out[counterHeadBytes+8*i:], c[counter])
		}
	}
	return b
}

// ParseSummary decodes the output of AppendSummary.
func ParseSummary(b []byte) (vesw uint16, port uint32, c Counts, err error) {
	return parseCounters(b, summaryCounters, summaryBytes)
}

// ParseErrors decodes the output of AppendErrors.
func ParseErrors(b []byte) (vesw uint16, port uint32, c Counts, err error) {
	return parseCounters(b, errorCounters, errorBytes)
}

func parseCounters(
	b []byte, list []Counter, size int,
) (vesw uint16, port uint32, c Counts, err error) {
	if len(b) != size {
		return 0, 0, c, malformed("counters", len(b))
	}
	for i, counter := range list {
		if counter != reserved {
			c[counter] = be.Uint64(b[counterHeadBytes+8*i:])
		}
	}
	return be.Uint16(b[2:]), be.Uint32(b[4:]), c, nil
}
