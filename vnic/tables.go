package vnic

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// The sizes of tables.
const (
	MACEntriesMax   = 2048 // rows of a port's MAC table
	SourceMACsMax   = 256  // source entries in a port's MAC table
	DefaultPorts    = 16
	MembersMax      = 4096
	FDBEntriesMax   = 1 << 16
	VportMax        = 255
	hashSizeDefault = 32
)

// The constants below are the states of a port.
const (
	StateDropAll    = 1
	StateForwarding = 3
)

// ErrTable means an invalid table or an invalid configuration value.
var ErrTable = errors.New("vnic: table refused")

// MACEntry is a row of a MAC table.
type MACEntry struct {
	MAC, Mask MAC    // the mask is not used, as in Omni-Path
	DLID      uint32 // destination of frames to MAC
	SD        uint8  // with sourceEntry the row is about senders
}

const sourceEntry = 0x20

// MACTable is an immutable MAC table.
type MACTable struct {
	Digest  uint32
	entries []MACEntry // by index; a MAC of 0 means an empty row
	dlid    map[MAC]uint32
}

// NewMACTable makes a table of rows. The table uses the slice "entries" itself and not a copy.
// NewMACTable returns ErrTable for more than MACEntriesMax rows.
func NewMACTable(digest uint32, entries []MACEntry) (*MACTable, error) {
	if len(entries) > MACEntriesMax {
		return nil, fmt.Errorf("%w: %d MAC entries, at most %d", ErrTable, len(entries), MACEntriesMax)
	}
	t := &MACTable{Digest: digest, entries: entries, dlid: make(map[MAC]uint32, len(entries))}
	for _, e := range entries {
		if e.MAC == 0 || e.SD&sourceEntry != 0 {
			continue
		}
		if _, ok := t.dlid[e.MAC]; !ok { // the first row takes precedence
			t.dlid[e.MAC] = e.DLID
		}
	}
	return t, nil
}

// Entries returns all rows up to the last used row. The caller must not change the returned slice.
func (t *MACTable) Entries() []MACEntry {
	if t == nil {
		return nil
	}
	return t.entries
}

// Lookup returns the LID of the host that gets the frames to the address m. The result "ok" of
// Lookup is true if the table has a row for m, and otherwise false.
func (t *MACTable) Lookup(m MAC) (dlid uint32, ok bool) {
	if t == nil {
		return 0, false
	}
	dlid, ok = t.dlid[m]
	return dlid, ok
}

// Replace returns a copy of the table with new rows, from the row with the index "offset" on. A row
// with a MAC of 0 is empty. Replace returns ErrTable if a row would have an index of MACEntriesMax
// or more.
func (t *MACTable) Replace(digest uint32, offset int, rows []MACEntry) (*MACTable, error) {
	if offset < 0 || offset+len(rows) > MACEntriesMax {
		return nil, fmt.Errorf("%w: rows %d to %d of %d", ErrTable, offset, offset+len(rows),
			MACEntriesMax)
	}
	all := slices.Clone(t.Entries())
	if n := offset + len(rows); n > len(all) {
		all = append(all, make([]MACEntry, n-len(all))...)
	}
	copy(all[offset:], rows)
	for len(all) > 0 && all[len(all)-1].MAC == 0 {
		all = all[:len(all)-1]
	}
	return NewMACTable(digest, all)
}

// Carrier is the transport of the frames of a switch.
type Carrier uint8

// The carriers.
const (
	CarrierDatagram Carrier = 0 // a fabric datagram for each frame; frames may be lost
	CarrierFragment Carrier = 1 // btl fragments; no loss, order restored
)

func (c Carrier) String() string {
	if c == CarrierFragment {
		return "fragment"
	}
	return "datagram"
}

// Options are settings of a switch that Omni-Path does not have. The zero Options give the
// behaviour of Omni-Path.
type Options struct {
	Carrier  Carrier `json:"-"`
	Cut      bool    `json:"cut"`      // too large frames are sent as btl fragments
	Learning bool    `json:"learning"` // ports learn the senders' addresses
	Flood    bool    `json:"flood"`    // frames to unknown addresses go to all members
	Suppress bool    `json:"suppress"` // ports answer known ARP and neighbour requests
	// AgeingSeconds is the number of seconds for which a learned address is valid after the last frame
	// from the address. An AgeingSeconds of 0 means 300.
	AgeingSeconds uint16 `json:"ageing_seconds"`
	// LearnedMax is the largest number of addresses that a port can have learned at the same time, up
	// to FDBEntriesMax. A LearnedMax of 0 means 4096.
	LearnedMax uint32 `json:"learned_max"`
	// GroupRate is the largest number of frames per second that a port sends to all members of its
	// switch. In GroupRate, a frame to all members counts once, regardless of the number of members. A
	// burst of frames to all members may have as many frames as GroupRate allows for one second. A
	// GroupRate of 0 means 10000.
	GroupRate uint32 `json:"group_rate"`
}

const (
	ageingDefault     = 300
	learnedMaxDefault = 4096
	groupRateDefault  = 10000
)

// WithDefaults returns a copy of the Options in which default values replace zero numbers.
func (o Options) WithDefaults() Options {
	if o.AgeingSeconds == 0 {
		o.AgeingSeconds = ageingDefault
	}
	if o.LearnedMax == 0 {
		o.LearnedMax = learnedMaxDefault
	}
	if o.GroupRate == 0 {
		o.GroupRate = groupRateDefault
	}
	return o
}

func (o Options) ageing() time.Duration { return time.Duration(o.AgeingSeconds) * time.Second }

// Tables determine the destinations of the frames of a port. The caller must not change Tables
// after SetTables.
type Tables struct {
	Info    VportInfo
	Options Options // with defaults
	MACs    *MACTable
	// Members are the LIDs of all hosts with a port on the switch, including this host, in
	// ascending order.
	Members []uint32
}

// Member reports whether the host with the given LID has a port on the switch.
func (t *Tables) Member(lid uint32) bool {
	_, ok := slices.BinarySearch(t.Members, lid)
	return ok
}

// Forwarding reports whether the port forwards frames.
func (t *Tables) Forwarding() bool { return t.Info.OperState == StateForwarding }

// The method "router" returns the LID of the default port, which gets the frames of a flow to an
// unknown address. The result "ok" of the method "router" is true if a bit of the default port mask
// is set, and otherwise false. As in Omni-Path, the flow's entropy selects one of 32 table entries.
// The 32 table entries are the default ports whose mask bit is set, repeated cyclically.
func (t *Tables) router(entropy uint8) (dlid uint32, ok bool) {
	mask := t.Info.DefPortMask
	n := 0
	for m := mask; m != 0; m &= m - 1 {
		n++
	}
	if n == 0 {
		return 0, false
	}
	nth := int((entropy&15)+(entropy>>4)) & (hashSizeDefault - 1) % n
	for i := range DefaultPorts {
		if mask>>i&1 == 0 {
			continue
		}
		if nth == 0 {
			return t.Info.UcastDLID[i], true
		}
		nth--
	}
	return 0, false
}
