package keep

import (
	"fmt"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/words"
)

// Place is the kind of memory that holds kept data.
type Place uint8

// The places of kept data.
const (
	Nowhere Place = iota // there is no data
	Copy
	Packet  // a receive buffer
	Message // the reassembly memory of a large message
)

// String returns a word for the place.
func (p Place) String() string {
	return words.Name([]string{"nowhere", "copy", "packet", "message"}, int(p), "Place")
}

// Store keeps received data. The type port.Keeper manages the receive buffers of kept packets.
type Store struct {
	packets    *port.Keeper
	arena      *fabric.Arena
	bytes      int64         // memory of the kept large messages
	bytesMax   int64         // maximum value of the field "bytes"
	delivering *frag.Message // the large message that is being delivered, unless it is kept
	closed     bool
}

// Init makes the Store of a port empty. The argument bytesMax of Init is the largest number of
// bytes that the kept large messages may take.
func (s *Store) Init(p *port.Port, bytesMax int64) {
	s.packets, s.arena, s.bytesMax = &p.Keeper, &p.Arena, bytesMax
}

// Close must be called before the fabric is closed. After Close, the memory of kept packets stays
// mapped until the program has released the Data that refers to the packets.
func (s *Store) Close() {
	s.closed = true
	s.packets.Outlive()
}

// Bytes returns the memory, in bytes, of the kept large messages.
func (s *Store) Bytes() int64 { return s.bytes }

// Deliver records that the delivery of a large message to its handler begins. The delivery lasts
// until Delivered is called.
func (s *Store) Deliver(msg *frag.Message) { s.delivering = msg }

// Delivered ends the delivery of a large message, and frees its memory unless the program keeps the
// message.
func (s *Store) Delivered() {
	if msg := s.delivering; msg != nil {
		s.delivering = nil
		msg.Release()
	}
}

// Keep stores data in d, which must be empty. Keep copies the data if it cannot stay in its receive
// buffer or reassembly memory. The result of Keep is the kind of memory in which the data is kept.
func (s *Store) Keep(d *Data, data []byte) Place {
	d.store = s
	if d.buf, d.place = s.keepPacket(data); d.place == Nowhere && s.keepMessage(d, data) {
		d.place = Message
	}
	if d.place == Nowhere {
		d.own = append(d.own[:0], data...)
		d.place, data = Copy, d.own
	}
	d.data = data[:len(data):len(data)]
	return d.place
}

// keepPacket keeps the receive buffer of the packet that is being delivered. If "data" is not in
// the receive buffer, or if no spare buffer is left, keepPacket returns Nowhere.
func (s *Store) keepPacket(data []byte) (fabric.Buf, Place) {
	if b, ok := s.packets.Keep(data); ok {
		return b, Packet
	}
	return 0, Nowhere
}

// keepMessage keeps the memory of the large message that is being delivered, and returns true.
// keepMessage keeps nothing and returns false if "data" is not in the memory of the message, or if
// the limit on kept memory would be exceeded.
func (s *Store) keepMessage(d *Data, data []byte) bool {
	msg := s.delivering
	if msg == nil || s.bytes+msg.CapBytes() > s.bytesMax || !port.Within(data, msg.Bytes) {
		return false
	}
	msg.Keep()
	s.bytes += msg.CapBytes()
	d.msg, s.delivering = msg, nil
	return true
}

// Check returns an error if the Store is inconsistent. Check must not be called during a delivery.
func (s *Store) Check() error {
	if s.bytes < 0 || s.delivering != nil {
		return fmt.Errorf("%d bytes kept, one is being delivered: %v", s.bytes, s.delivering != nil)
	}
	return nil
}

// Data is one kept message, or a part of one. A zero Data is empty.
type Data struct {
	store *Store
	data  []byte
	own   []byte        // memory for a copy, kept for reuse
	msg   *frag.Message // the message whose memory contains the data
	buf   fabric.Buf    // the receive buffer that has data
	place Place
}

// Bytes returns the kept data.
func (d *Data) Bytes() []byte { return d.data }

// Place returns the kind of memory that holds the data.
func (d *Data) Place() Place { return d.place }

// Release returns the kept memory to its owner. A second call of Release does nothing. After
// Release, the Data can hold new data, and reuses the memory of its last copy.
func (d *Data) Release() {
	switch s := d.store; {
	case d.place == Packet && s.closed:
		s.arena.Drop()
	case d.place == Packet:
		s.packets.LetGo(d.buf)
	case d.place == Message && !s.closed:
		s.bytes -= d.msg.CapBytes()
		d.msg.Return()
	}
	*d = Data{own: d.own}
}

// copyOut copies the data from its receive buffer to memory of the Data, before the fabric is
// closed.
func (d *Data) copyOut() {
	if d.place == Packet {
		d.store.packets.LetGo(d.buf)
		d.own = append(d.own[:0], d.data...)
		d.place, d.data = Copy, d.own
	}
}
