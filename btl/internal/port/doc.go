// Package port opens one Domain of a fabric for a module. A Port manages the packet buffers, the
// command channel, the data channel, and the addresses of peers.
//
//	+------------------------- Domain --------------------------+
//	| arena, send | control | receive cmd | receive data | spare |
//	|            command channel   data channel                  |
//	|              addresses of peers                            |
//	+------------------------------------------------------------+
//
// Three things to know:
//   - A Port does not use connections and sequence numbers, and does not read a clock.
//   - Done returns the buffers that the fabric has released, and Refused returns the sends that the
//     fabric has rejected.
//   - The caller frees its send buffers. The Port frees a control buffer as soon as the fabric has
//     released the buffer.
//
// All packets pass through a Port. Every outgoing packet passes through Put, Next or Inject of a
// Channel, with a complete header. Every incoming packet passes through Poll, before its header is
// parsed. If encryption is added, it belongs in package port, where a packet can be encrypted
// before Post and decrypted after Poll. With encryption, each payload that the fabric reads from or
// writes to the application's memory would have to be copied.
//
// A Port is not safe for concurrent use.
package port
