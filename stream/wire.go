package stream

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// The datagrams of the unreliable mode have the little-endian fields below.
//
//	 0  check      4  hash of the rest of the header
//	 4  datagram   4  number within the message
//	 8  key        8  data key of the receiver, or of the group
//	16  ordinal    8  ordinal of the message
//	24  payload       part of the message
//
// By the data key, a receiver recognises the datagrams of the sender that it has accepted. A
// receiver chooses a random data key for each sender, and tells the key only to this sender, in the
// message with which it accepts the sender. All receivers of a multicast group know the data key of
// the group, which the sender chooses and sends in its start message. A receiver of a multicast
// group checks, in addition to the data key, from which endpoint a datagram comes, because all
// receivers of the group know the data key.
const headerBytes = 24

type header struct {
	key      uint64
	ordinal  uint64
	datagram uint32
}

func (h *header) put(b []byte) {
	_ = b[headerBytes-1]
	binary.LittleEndian.PutUint32(b, h.check())
	binary.LittleEndian.PutUint32(b[4:], h.datagram)
	binary.LittleEndian.PutUint64(b[8:], h.key)
	binary.LittleEndian.PutUint64(b[16:], h.ordinal)
}

// setKey changes the data key of an encoded header.
func setKey(b []byte, key uint64) {
	if binary.LittleEndian.Uint64(b[8:]) == key {
		return
	}
	h, _ := parseHeader(b)
	h.key = key
	h.put(b)
}

// parseHeader decodes the header of a datagram. The result "ok" of parseHeader reports whether the
// datagram is long enough for a header and the check field is right.
func parseHeader(b []byte) (h header, ok bool) {
	if len(b) < headerBytes {
		return h, false
	}
	h.datagram = binary.LittleEndian.Uint32(b[4:])
	h.key = binary.LittleEndian.Uint64(b[8:])
	h.ordinal = binary.LittleEndian.Uint64(b[16:])
	return h, binary.LittleEndian.Uint32(b) == h.check()
}

// check returns the check field of a header. The check field is a hash of all header fields after
// it and of the format's version, computed with the finalizer of MurmurHash3.
func (h *header) check() uint32 {
	const version = 1
	x := h.key ^ version
	x = mix(x ^ mix(h.ordinal^mix(uint64(h.datagram)+0x9e3779b97f4a7c15)))
	return uint32(x >> 32)
}

func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Control messages use the reliable transport with two tags, one for letters and one for notices.
// A letter is a control message in JSON for a single event. A notice is a binary control message
// that reports a total, such as the number of messages sent so far.
const (
	tagLetter = 1
	tagNotice = 2

	protocolVersion = 6
	letterBytesMax  = 16 << 10
)

// The constants below are the kinds of letters (control messages in JSON). The mark "-> receiver"
// stands for a letter to the receiver, and "<- sender" stands for a letter to the sender.
const (
	letterHello   = "hello"   // -> receiver: parameters of the stream
	letterWelcome = "welcome" // <- sender: data address, or size of the ring
	letterProof   = "proof"   // <- sender: hash that validates the data address
	letterStart   = "start"   // -> receiver: datagram size
	letterReady   = "ready"   // <- sender: ready, with handles for puts
	letterEnd     = "end"     // -> receiver: total number of messages
	letterReport  = "report"  // <- sender: the receiver's counters
	letterAbort   = "abort"   // both directions: error or refusal
)

// codeTaken is the code of an abort message which says that another peer is using the receiver or
// the sender at present.
const codeTaken = "taken"

// letter is a control message in JSON. Key is the sender's key, which identifies the stream.
type letter struct {
	Kind string `json:"kind"`
	Key  uint64 `json:"key,string"`

	Hello   *hello   `json:"hello,omitempty"`
	Welcome *welcome `json:"welcome,omitempty"`
	Proof   *proof   `json:"proof,omitempty"`
	Start   *start   `json:"start,omitempty"`
	End     *ending  `json:"end,omitempty"`
	Ready   *ready   `json:"ready,omitempty"`
	Report  *Stats   `json:"report,omitempty"`
	Code    string   `json:"code,omitempty"`
	Reason  string   `json:"reason,omitempty"`
}

type hello struct {
	Version      int    `json:"version"`
	To           uint64 `json:"to,string"` // key of the receiver
	Mode         Mode   `json:"mode"`
	MessageBytes int    `json:"message_bytes"`
	Messages     uint64 `json:"messages,string"` // total number; 0: not fixed
	First        uint64 `json:"first,string"`
	Group        string `json:"group,omitempty"`
	RingMessages uint64 `json:"ring_messages,string"` // messages in the sender's ring
}

type welcome struct {
	GraceNs uint64 `json:"grace_ns,string"` // maximum delay of the report after the end
	// Data, DataKey and DatagramBytes are set only in the unreliable mode. Data is the name of the
	// data endpoint. DataKey is the key in the datagrams to the data endpoint, and in the probes that
	// validate the data endpoint. DatagramBytes is the largest datagram that the data endpoint
	// accepts.
	Data          []byte `json:"data,omitempty"`
	DataKey       uint64 `json:"data_key,string,omitempty"`
	DatagramBytes int    `json:"datagram_bytes,omitempty"`
	// RingMessages is the number of messages that the receiver's ring can hold. RingMessages is set
	// only in the reliable mode.
	RingMessages uint64 `json:"ring_messages,string,omitempty"`
}

// The type "ready" contains the handles of the memory regions (blocks) of the receiver's ring in
// the reliable mode. All blocks of a ring have the same number of messages. The receiver's ring has
// at most BlocksMax blocks, so that the handles of all blocks fit in one letter (control message in
// JSON) of at most letterBytesMax bytes.
type ready struct {
	Blocks []uint64 `json:"blocks,omitempty"`
}

type proof struct {
	Nonce uint64 `json:"nonce,string"`
}

type start struct {
	DatagramBytes int    `json:"datagram_bytes,omitempty"` // largest datagram, including its header
	Sent          uint64 `json:"sent,string"`              // lower ordinals have been sent already
	// DataKey and Data are set only for a stream to a multicast group. DataKey is the key in the
	// datagrams. Data is the fabric name of the sender's data endpoint, which sends all datagrams.
	DataKey uint64 `json:"data_key,string,omitempty"`
	Data    []byte `json:"data,omitempty"`
}

type ending struct {
	Total   uint64 `json:"total,string"` // ordinal after the last message
	Dropped uint64 `json:"dropped,string"`
}

func (l *letter) encode() ([]byte, error) { return json.Marshal(l) }

// parseLetter decodes a letter (control message in JSON). parseLetter checks only that the letter
// contains the struct for its kind, not the values.
func parseLetter(b []byte) (*letter, error) {
	if len(b) > letterBytesMax {
		return nil, fmt.Errorf("letter of %d bytes", len(b))
	}
	l := new(letter)
	if err := json.Unmarshal(b, l); err != nil {
		return nil, err
	}
	missing := l.Kind == letterHello && l.Hello == nil ||
		l.Kind == letterWelcome && l.Welcome == nil ||
		l.Kind == letterProof && l.Proof == nil ||
		l.Kind == letterStart && l.Start == nil ||
		l.Kind == letterReady && l.Ready == nil ||
		l.Kind == letterEnd && l.End == nil ||
		l.Kind == letterReport && l.Report == nil
	if missing {
		return nil, fmt.Errorf("letter %q without its part", l.Kind)
	}
	return l, nil
}

// The kinds of notices.
const (
	noticePlaced = 1 // -> receiver: all messages below the ordinal are in the ring (reliable)
	noticeSkip   = 2 // -> receiver: the sender drops all missing messages below the ordinal (reliable)
	noticeSent   = 3 // -> receiver: all messages below the ordinal have been sent (unreliable)
	noticeCredit = 4 // <- sender: all messages below the ordinal may be put (reliable)
	noticeTaken  = 5 // <- sender: datagrams received once, at the end and for probes (unreliable)
)

// notice is a control message of 24 bytes. The field "ordinal" of a noticeTaken is a number of
// datagrams, and that of all other kinds is the ordinal of a message.
type notice struct {
	kind    uint64
	key     uint64
	ordinal uint64
}

const noticeBytes = 24

func (n *notice) put(b []byte) {
	binary.LittleEndian.PutUint64(b, n.kind)
	binary.LittleEndian.PutUint64(b[8:], n.key)
	binary.LittleEndian.PutUint64(b[16:], n.ordinal)
}

func parseNotice(b []byte) (n notice, ok bool) {
	if len(b) != noticeBytes {
		return n, false
	}
	n.kind = binary.LittleEndian.Uint64(b)
	n.key = binary.LittleEndian.Uint64(b[8:])
	n.ordinal = binary.LittleEndian.Uint64(b[16:])
	return n, true
}
