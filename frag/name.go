package frag

import "slices"

// The constants below are sizes of an encoded Name, in bytes.
const (
	NameBytesMax     = nameHeaderBytes + ProviderBytesMax + 2*AddrBytesMax
	ProviderBytesMax = 64

	nameVersion     = 1
	nameHeaderBytes = 16
)

// Name is the address of a module. A peer needs the Name of a module to connect to it. Peers
// receive a Name out of band, for example from a launcher's key-value store, a file or a command
// line.
type Name struct {
	Provider     string // such as "ofi/udp", 1 to ProviderBytesMax printable ASCII
	Incarnation  uint64 // random number of this run of the module, not 0
	MTUBytes     uint16 // largest datagram on the data channel, at least MTUBytesMin
	CommandBytes uint16 // largest datagram on the command channel, at least MTUBytesMin
	Command      []byte // endpoint names, opaque, 1 to AddrBytesMax bytes each
	Data         []byte
}

// Validate returns nil if each field of the Name is in its range, and ErrName otherwise.
func (n *Name) Validate() error {
	if len(n.Provider) < 1 || len(n.Provider) > ProviderBytesMax || n.Incarnation == 0 ||
		n.MTUBytes < MTUBytesMin || n.CommandBytes < MTUBytesMin ||
		len(n.Command) < 1 || len(n.Command) > AddrBytesMax ||
		len(n.Data) < 1 || len(n.Data) > AddrBytesMax {
		return ErrName
	}
	for i := range len(n.Provider) {
		if c := n.Provider[i]; c <= ' ' || c > '~' {
			return ErrName
		}
	}
	return nil
}

// Append appends the encoding of the Name n to b, and returns the extended slice. The encoding of a
// Name has at most NameBytesMax bytes. If a field of the Name is out of its range, Append returns
// ErrName and the unchanged slice b.
func (n *Name) Append(b []byte) ([]byte, error) {
	if err := n.Validate(); err != nil {
		return b, err
	}
	b = append(b, nameVersion, byte(len(n.Provider)), byte(len(n.Command)), byte(len(n.Data)))
	b = le.AppendUint64(b, n.Incarnation)
	b = le.AppendUint16(b, n.MTUBytes)
	b = le.AppendUint16(b, n.CommandBytes)
	b = append(b, n.Provider...)
	b = append(b, n.Command...)
	return append(b, n.Data...), nil
}

// ParseName decodes a Name that Append has encoded. If b is not an encoded Name, or contains more
// bytes after the Name, ParseName returns ErrName. The result of ParseName shares no memory with b.
func ParseName(b []byte) (Name, error) {
	if len(b) < nameHeaderBytes || b[0] != nameVersion {
		return Name{}, ErrName
	}
	providerEnd := nameHeaderBytes + int(b[1])
	commandEnd := providerEnd + int(b[2])
	dataEnd := commandEnd + int(b[3])
	if len(b) != dataEnd {
		return Name{}, ErrName
	}
	n := Name{
		Provider:     string(b[nameHeaderBytes:providerEnd]),
		Incarnation:  le.Uint64(b[4:]),
		MTUBytes:     le.Uint16(b[12:]),
		CommandBytes: le.Uint16(b[14:]),
		Command:      slices.Clone(b[providerEnd:commandEnd]),
		Data:         slices.Clone(b[commandEnd:dataEnd]),
	}
	if err := n.Validate(); err != nil {
		return Name{}, err
	}
	return n, nil
}
