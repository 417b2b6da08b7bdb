package vnic

import (
	"fmt"
	"slices"
)

// The constants below are the limits of a host's addresses and names.
const (
	HostNameBytesMax = 64
	LanesMax         = 8 // endpoints of one kind
	LeaseMsMax       = 60_000
)

// Ways holds a host's endpoint names, to which remote hosts send packets for the host, and by which
// they recognize packets from the host. An endpoint name is an opaque fabric address.
type Ways struct {
	Receive [][]byte // receiving endpoints; each flow uses one of these
	Send    [][]byte // endpoints from which the host sends
	Module  []byte   // of btl, for fragments
}

// Equal reports whether two hosts have the same endpoint names.
func (w *Ways) Equal(o *Ways) bool { return string(w.append(nil)) == string(o.append(nil)) }

// The method "complete" reports whether there is at least one endpoint name of each kind (Receive,
// Send and Module), so that remote hosts can reach the host.
func (w *Ways) complete() bool { return len(w.Receive) > 0 && len(w.Send) > 0 && len(w.Module) > 0 }

// The method "none" reports whether a host has no endpoint names. In a table of LIDs, an entry
// without endpoint names tells the agent to keep the endpoint names that the agent already has for
// the host.
func (w *Ways) none() bool { return len(w.Receive) == 0 && len(w.Send) == 0 && len(w.Module) == 0 }

func (w *Ways) append(b []byte) []byte {
	b = append(b, byte(len(w.Receive)), byte(len(w.Send)))
	for _, n := range w.Receive {
		b = appendName(b, n)
	}
	for _, n := range w.Send {
		b = appendName(b, n)
	}
	return appendName(b, w.Module)
}

func appendName(b, name []byte) []byte { return append(append(b, byte(len(name))), name...) }

// The type "cursor" decodes a list of endpoint names. The field "bad" of a cursor becomes true if
// the encoded list ends before the last expected name.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if c.bad || n > len(c.b) {
		c.bad = true
		return nil
	}
	v := c.b[:n]
	c.b = c.b[n:]
	return v
}

func (c *cursor) byte() int {
	if v := c.take(1); v != nil {
		return int(v[0])
	}
	return 0
}

func (c *cursor) name() []byte { return slices.Clone(c.take(c.byte())) }

func (c *cursor) ways() (w Ways) {
	rx, tx := c.byte(), c.byte()
	if rx > LanesMax || tx > LanesMax {
		c.bad = true
	}
	for i := 0; i < rx && !c.bad; i++ {
		w.Receive = append(w.Receive, c.name())
	}
	for i := 0; i < tx && !c.bad; i++ {
		w.Send = append(w.Send, c.name())
	}
	w.Module = c.name()
	return w
}

// Registration is the message by which a host registers at the manager.
type Registration struct {
	Host     string // the host's name in the manager's file
	Manager  string // name of the only manager that the host accepts
	Instance uint64 // random number of this run of the agent
	// Ports is a bitmap of the ports that are connected to a switch. Port n is bit n%8 of byte n/8.
	Ports [portMapBytes]byte
	Ways  Ways
}

const portMapBytes = 32

// Append appends the encoded Registration to b. Append truncates the fields Host and Manager to
// HostNameBytesMax bytes.
func (r *Registration) Append(b []byte) []byte {
	b = be.AppendUint64(b, r.Instance)
	b = append(b, r.Ports[:]...)
	b = appendName(b, []byte(r.Host[:min(len(r.Host), HostNameBytesMax)]))
	b = appendName(b, []byte(r.Manager[:min(len(r.Manager), HostNameBytesMax)]))
	return r.Ways.append(b)
}

// ParseRegistration decodes the output of Registration.Append.
func ParseRegistration(b []byte) (r Registration, err error) {
	const fixed = 8 + portMapBytes
	if len(b) < fixed || len(b) > DataBytesMax {
		return r, malformed("registration", len(b))
	}
	r.Instance = be.Uint64(b)
	copy(r.Ports[:], b[8:])
	c := cursor{b: b[fixed:]}
	r.Host, r.Manager = string(c.name()), string(c.name())
	r.Ways = c.ways()
	if c.bad || len(c.b) > 0 || !NameOK(r.Host) || !NameOK(r.Manager) {
		return r, malformed("registration", len(b))
	}
	return r, nil
}

// NameOK reports whether s is a valid name of a host or manager. A valid name has 1 to
// HostNameBytesMax printable ASCII characters without spaces.
func NameOK(s string) bool {
	if len(s) < 1 || len(s) > HostNameBytesMax {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Lease is a manager's temporary right to configure an agent. Until the lease expires, only the
// manager that holds the lease may change the configuration of the agent.
type Lease struct {
	Manager  string
	Instance uint64 // random number of this run of the manager
	Ms       uint32 // duration from the receipt on, up to LeaseMsMax
	LID      uint32 // LID of the host that receives the lease
}

// Append appends the encoded Lease to b.
func (l *Lease) Append(b []byte) []byte {
	b = be.AppendUint64(b, l.Instance)
	b = be.AppendUint32(b, l.Ms)
	b = be.AppendUint32(b, l.LID)
	return appendName(b, []byte(l.Manager[:min(len(l.Manager), HostNameBytesMax)]))
}

// ParseLease decodes the output of Lease.Append, and checks the range of each value.
func ParseLease(b []byte) (l Lease, err error) {
	const fixed = 16
	if len(b) < fixed {
		return l, malformed("lease", len(b))
	}
	c := cursor{b: b[fixed:]}
	l = Lease{
		Instance: be.Uint64(b), Ms: be.Uint32(b[8:]), LID: be.Uint32(b[12:]), Manager: string(c.name()),
	}
	if c.bad || len(c.b) > 0 || !NameOK(l.Manager) {
		return l, malformed("lease", len(b))
	}
	if l.Ms > LeaseMsMax || l.LID == 0 || l.LID > LIDMax {
		return l, fmt.Errorf("%w: lease of %d ms, LID %d", ErrTable, l.Ms, l.LID)
	}
	return l, nil
}

// LIDEntry maps a LID to the endpoint names of the host with this LID.
type LIDEntry struct {
	LID  uint32
	Ways Ways
}

// appendLID appends the bytes of one LIDEntry.
func appendLID(b []byte, e *LIDEntry) []byte {
	b = be.AppendUint32(b, e.LID)
	return e.Ways.append(b)
}

func lidMessages(list []LIDEntry) [][]byte {
	var all [][]byte
	var data []byte
	for i := range list {
		one := appendLID(nil, &list[i])
		if len(data)+len(one) > DataBytesMax {
			all = append(all, data)
			data = nil
		}
		data = append(data, one...)
	}
	return append(all, data)
}

// ParseLIDs decodes the LID entries in the data of one management message.
func ParseLIDs(b []byte) (list []LIDEntry, err error) {
	c := cursor{b: b}
	for len(c.b) > 0 {
		id := c.take(4)
		if c.bad {
			break
		}
		e := LIDEntry{LID: be.Uint32(id), Ways: c.ways()}
		if e.LID == 0 || e.LID > LIDMax {
			c.bad = true
		}
		list = append(list, e)
	}
	if c.bad || len(b) > DataBytesMax {
		return nil, malformed("LIDs", len(b))
	}
	return list, nil
}
