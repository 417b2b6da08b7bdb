// Package conn provides byte streams over a runner.Runner, as net.Conn and net.Listener. Programs
// written for TCP, such as programs with net/http or net/rpc, can use the transport through this
// package.
//
//	Dial                                                    Listener
//	  +-- open (service, limit) ----------------------------->| refuse, if there is no such service
//	  |<----------------------------------- accept (limit) ---+ Accept
//	Write -- data (offset, bytes) --------------------------->| put in order, Read
//	  |<----------------------------------- credit (limit) ---+ when a quarter of a window was read
//	CloseWrite -- fin (length) ------------------------------>| EOF
//	  |<---------------------------------------------- stop --+ CloseRead
//
// Close sends both a fin and a stop message. A side that drops unsent bytes after Close sends a
// reset message, which ends the Conn (see orphans.go). The side that has dialed sends a reset
// message only after the peer has acknowledged the open message. A message is one fragment, and
// begins with a header of 16 bytes in little-endian order. Each row of the table gives the offset,
// the size in bytes, and the meaning of a field in the header of a message.
//
//	0  1  kind (open 1, accept 2, refuse 3, data 4, credit 5, fin 6, stop 7,
//	      reset 8)
//	1  1  1 if the sender of the message has dialed and chosen the id, or 0
//	2  2  reason of a refuse (1 no such service, 2 backlog is full, 3 too many Conns), or 0
//	4  4  id
//	8  8  offset or limit, in bytes since the beginning of the direction, or 0
//	16    bytes of a data message, or name of the service of an open message
//
// Fragments can arrive in a different order than they were sent, so the receiver sorts the bytes of
// the stream by the offsets in the data messages. A sender uses the largest window limit that it
// has received, so a window limit that arrives late has no effect. A side has at most inFlightMax
// data fragments of a Conn in flight, which limits the number of gaps in the received bytes.
// Messages for a Conn that has ended are dropped. A message that violates the protocol of package
// conn ends the endpoint.
//
// Small Writes in a burst are buffered and sent together (see writebuffer.go). The first buffered
// Write starts a goroutine that sends the buffered bytes when the writing goroutine blocks. A Read
// of any Conn sends the buffered bytes of all Conns of the same Node.
//
// A Write of a Conn blocks while the number of unread bytes at the peer equals the window. The
// window of a Conn is WindowBytes at first, and grows if the path needs a larger window (see
// growth.go). The window limits the receive buffer of a Conn, which is allocated only when bytes
// arrive, and grows in proportion to the bytes that have arrived (see early.go). Config.TotalBytes
// limits the memory of all Conns together. Bytes that were written before Close are delivered after
// Close, provided that the peer reads them in time (see Conn.Close). A Conn ends when its endpoint
// ends. Calls that wait for a dead peer fail after btl.Config.PeerTimeout, or after up to
// btl.Config.KeepAlive more if no packets are in flight to the peer.
//
// After the Runner has started, all methods of this package are safe for concurrent use. Only the
// goroutine that drives the module accesses the state of a Conn.
package conn
