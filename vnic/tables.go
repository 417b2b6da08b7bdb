package vnic

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Sizes of tables.
const (
	MACEntriesMax   = 2048 // of a port's MAC table
	SourceMACsMax   = 256  // of the source entries in it
	DefaultPorts    = 16
	MembersMax      = 4096
	FDBEntriesMax   = 1 << 16
	VportMax        = 255
	hashSizeDefault = 32
)

// States of a port.
const (
	StateDropAll    = 1
	StateForwarding = 3
)

// ErrTable is wrapped by the errors of an invalid table.
var ErrTable = errors.New("vnic: table refused")

// MACEntry is a row of a MAC table.
type MACEntry struct {
	MAC, Mask MAC    // the mask is kept and not used, as in the original
	DLID      uint32 // where frames to the address go
	SD        uint8  // sourceEntry says that it is about senders, not about destinations
}

const sourceEntry = 0x20

// MACTable is an immutable MAC table.
type MACTable struct {
	Digest  uint32
	entries []MACEntry // by index; a zero MAC is an empty row
	dlid    map[MAC]uint32
}

// NewMACTable makes a table of rows, which it keeps.
func NewMACTable(digest uint32, entries []MACEntry) (*MACTable, error) {
	if len(entries) > MACEntriesMax {
		return nil, fmt.Errorf("%w: %d MAC entries, at most %d", ErrTable, len(entries), MACEntriesMax)
	}
	t := &MACTable{Digest: digest, entries: entries, dlid: make(map[MAC]uint32, len(entries))}
	for _, e := range entries {
		if e.MAC == 0 || e.SD&sourceEntry != 0 {
			continue
		}
		if _, ok := t.dlid[e.MAC]; !ok { // the first row holds
			t.dlid[e.MAC] = e.DLID
		}
	}
	return t, nil
}

// Entries returns the rows up to the last used one. The caller must not change them.
func (t *MACTable) Entries() []MACEntry {
	if t == nil {
		return nil
	}
	return t.entries
}

// Lookup returns where frames to an address go.
func (t *MACTable) Lookup(m MAC) (dlid uint32, ok bool) {
	if t == nil {
		return 0, false
	}
	dlid, ok = t.dlid[m]
	return dlid, ok
}

// Replace returns the table with rows from offset on exchanged for others; zero MACs empty them.
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

// Carrier is the way in which the frames of a switch are sent.
type Carrier uint8

// The carriers.
const (
	CarrierDatagram Carrier = 0 // each in a datagram of the fabric: may be lost, as on an Ethernet
	CarrierFragment Carrier = 1 // in fragments of btl: nothing is lost, order is made anew
)

func (c Carrier) String() string {
	if c == CarrierFragment {
		return "fragment"
	}
	return "datagram"
}

// Options are settings of a switch that Omni-Path does not have. The zero value has the behaviour
// of Omni-Path.
type Options struct {
	Carrier  Carrier `json:"-"`
	Cut      bool    `json:"cut"`      // frames too large for a datagram travel as fragments
	Learning bool    `json:"learning"` // senders' addresses are learned
	Flood    bool    `json:"flood"`    // unknown unicast goes to all members
	Suppress bool    `json:"suppress"` // ARP and neighbour requests are answered here where known
	// AgeingSeconds is how long a learned address holds after its last frame. 0 means 300.
	AgeingSeconds uint16 `json:"ageing_seconds"`
	// LearnedMax bounds the learned addresses of a port, up to FDBEntriesMax. 0 means 4096.
	LearnedMax uint32 `json:"learned_max"`
	// GroupRate bounds the frames per second that a port sends to all members, without counting
	// copies. The burst is the frames of one second. 0 means 10000.
	GroupRate uint32 `json:"group_rate"`
}

const (
	ageingDefault     = 300
	learnedMaxDefault = 4096
	groupRateDefault  = 10000
)

// WithDefaults returns o with its zero numbers filled in.
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

// Tables determines where the frames of a port go. It is immutable once it is in use.
type Tables struct {
	Info    VportInfo
	Options Options // with defaults
	MACs    *MACTable
	// Members are the LIDs of the hosts with a port on the switch, this one's too, ascending.
	Members []uint32
}

// Member says whether a host has a port on the switch.
func (t *Tables) Member(lid uint32) bool {
	_, ok := slices.BinarySearch(t.Members, lid)
	return ok
}

// Forwarding says whether the port carries frames.
func (t *Tables) Forwarding() bool { return t.Info.OperState == StateForwarding }

// router returns the default port of a flow, and whether there is one: the set bits of the mask,
// over and over, fill a table of 32, which the entropy indexes.
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
