package vnic

import (
	"errors"
	"fmt"
)

// The sizes of a management message, in bytes.
const (
	MessageHeaderBytes = 40
	DataBytesMax       = 2008
	MessageBytesMax    = MessageHeaderBytes + DataBytesMax
)

// The errors of decoding management messages.
var (
	ErrMessage   = errors.New("vnic: malformed management message")
	ErrAttribute = errors.New("vnic: malformed attribute")
)

// Method is the method of a management message.
type Method uint8

// The methods have the same values as in InfiniBand's management datagrams.
const (
	MethodGet      Method = 0x01
	MethodSet      Method = 0x02
	MethodTrap     Method = 0x05
	MethodResponse Method = 0x81
)

func (m Method) String() string {
	switch m {
	case MethodGet:
		return "Get"
	case MethodSet:
		return "Set"
	case MethodTrap:
		return "Trap"
	case MethodResponse:
		return "Response"
	}
	return fmt.Sprintf("Method %#x", uint8(m))
}

// Status is the result of a request, and is contained in the response to the request.
type Status uint16

// The values of Status.
const (
	StatusOK          Status = 0
	StatusBusy        Status = 1 // another manager has the lease
	StatusVersion     Status = 1 << 2
	StatusMethod      Status = 2 << 2
	StatusUnsupported Status = 3 << 2 // unknown attribute, or unknown for this method
	StatusInvalid     Status = 7 << 2 // a value of the attribute is invalid
	StatusUnproven    Status = 8 << 2 // not in Omni-Path: an address could not be verified
)

// Attribute is the kind of data in a message.
type Attribute uint16

// The attributes. AttrRegister and the attributes after it do not exist in Omni-Path.
const (
	AttrClassPortInfo Attribute = 0x01
	AttrVportInfo     Attribute = 0x11
	AttrMACEntries    Attribute = 0x12
	AttrUnicastMACs   Attribute = 0x13
	AttrMulticastMACs Attribute = 0x14
	AttrDeleteVESW    Attribute = 0x15
	AttrSummary       Attribute = 0x20
	AttrErrors        Attribute = 0x22

	AttrRegister Attribute = 0xF0
	AttrLease    Attribute = 0xF1
	AttrLIDs     Attribute = 0xF2
	AttrMembers  Attribute = 0xF3
	AttrOptions  Attribute = 0xF4
	AttrProof    Attribute = 0xF5
)

// The bits of the attribute modifier.
const (
	ModVport = 0xFF   // number of the port
	ModMore  = 1 << 8 // more messages of this table follow
	ModNew   = 1 << 9 // first message of a table: drop staged rows
	modAll   = 0x3FF
)

const (
	mgmtBaseVersion  = 0x80
	mgmtClass        = 0x34
	mgmtClassVersion = 0x80
	// The bytes from protectionAt on are reserved for encryption and authentication of messages in a
	// later version. In a version with encryption, the reserved bytes will hold the kind of
	// protection, the key and the packet number. In a message without protection all reserved bytes
	// are 0.
	protectionAt, protectionBytes = 24, 12
	mgmtOUI                       = 0x00066A
)

// Message is a management message.
type Message struct {
	Method   Method
	Status   Status
	Attr     Attribute
	TID      uint64 // a response has the TID of its request
	Modifier uint32
	Data     []byte // data of the attribute
}

// Vport returns the number of the port to which the message applies.
func (m *Message) Vport() uint8 { return uint8(m.Modifier & ModVport) }

// Append appends the bytes of the message. The field Data of a Message must have at most
// DataBytesMax bytes.
func (m *Message) Append(b []byte) []byte {
	b = append(b, mgmtBaseVersion, mgmtClass, mgmtClassVersion, byte(m.Method))
	b = be.AppendUint16(b, uint16(m.Status))
	b = append(b, 0, 0)
	b = be.AppendUint64(b, m.TID)
	b = be.AppendUint16(b, uint16(m.Attr))
	b = append(b, 0, 0)
	b = be.AppendUint32(b, m.Modifier)
	b = append(b, make([]byte, protectionBytes)...)
	b = be.AppendUint32(b, mgmtOUI)
	return append(b, m.Data...)
}

// ParseMessage decodes the output of Message.Append. For bytes that Message.Append cannot have
// produced, ParseMessage returns ErrMessage. The field Data of the message that ParseMessage
// returns is a part of b.
func ParseMessage(b []byte) (m Message, err error) {
	if len(b) < MessageHeaderBytes || len(b) > MessageBytesMax {
		return m, fmt.Errorf("%w: %d bytes", ErrMessage, len(b))
	}
	if b[0] != mgmtBaseVersion || b[1] != mgmtClass || b[2] != mgmtClassVersion {
		return m, fmt.Errorf("%w: version %#x, class %#x, version %#x", ErrMessage, b[0], b[1], b[2])
	}
	for _, c := range b[protectionAt : protectionAt+protectionBytes] {
		if c != 0 {
			return m, fmt.Errorf("%w: protection of an unknown kind", ErrMessage)
		}
	}
	m = Message{
		Method: Method(b[3]), Status: Status(be.Uint16(b[4:])), TID: be.Uint64(b[8:]),
		Attr: Attribute(be.Uint16(b[16:])), Modifier: be.Uint32(b[20:]), Data: b[MessageHeaderBytes:],
	}
	if be.Uint16(b[6:]) != 0 || be.Uint16(b[18:]) != 0 || be.Uint32(b[36:]) != mgmtOUI ||
		m.Modifier&^modAll != 0 {
		return m, fmt.Errorf("%w: reserved bits, or a foreign OUI", ErrMessage)
	}
	switch m.Method {
	case MethodGet, MethodSet, MethodTrap, MethodResponse:
		return m, nil
	}
	return m, fmt.Errorf("%w: %v", ErrMessage, m.Method)
}

// Response returns the response to the request m, with the given status and data.
func (m *Message) Response(status Status, data []byte) Message {
	return Message{
		Method: MethodResponse, Status: status, Attr: m.Attr, TID: m.TID, Modifier: m.Modifier,
		Data: data,
	}
}
