// Package conn provides byte streams over a runner.Runner, as net.Conn and net.Listener.
// Programs written for TCP, such as programs with net/http or net/rpc, run over the transport.
// The package uses only public API.
//
//	Dial                                                    Listener
//	  +-- open: service, limit ------------------------------>| no such one: refuse
//	  |<------------------------------------ accept: limit ---+ Accept
//	Write -- data: offset, bytes ---------------------------->| put in order, Read
//	  |<------------------------------------ credit: limit ---+ when a quarter of a window was read
//	CloseWrite -- fin: length ------------------------------->| EOF
//	  |<---------------------------------------------- stop --+ CloseRead: nobody reads any more
//
// Close sends both fin and stop. A message is one fragment, and begins with a header of 16
// bytes, little-endian:
//
//	0  1  kind: open 1, accept 2, refuse 3, data 4, credit 5, fin 6, stop 7
//	1  1  1 if the id is one of the sender's, who has dialed; else 0
//	2  2  of refuse: 1 no such service, 2 its backlog is full, 3 too many Conns; else 0
//	4  4  id
//	8  8  offset or limit: bytes since the beginning of the direction; of others 0
//	16    of data the bytes, of open the name of the service
//
// Fragments overtake each other. Data messages have offsets, by which the receiver puts the bytes
// in order. Limits only grow, so a late limit does no harm. A side has at most inFlightMax data
// fragments of a Conn in flight, which bounds the gaps at the other side. Messages for a Conn
// that has ended are dropped. A message that violates the protocol ends the endpoint.
//
// Small Writes in a burst are buffered without use of the module, and are sent together:
// writebuffer.go. The first buffered Write starts a goroutine that sends the buffered bytes when
// the writer blocks. A Read of any Conn of the Node also sends the buffered bytes.
//
// If a Conn is not read, its writer stops when a window of bytes is unread. The window is
// WindowBytes, or more if the path needs more: see growth.go. The window bounds the memory of a
// Conn, which is allocated only when bytes arrive. Bytes written before Close are delivered, if
// the peer reads them. A Conn ends with its endpoint. Calls that wait for a dead peer fail
// after btl.Config.PeerTimeout, plus KeepAlive if nothing is in flight to the peer.
//
// Any goroutine may call all methods. The state of a Conn belongs to the goroutine that drives
// the Runner.
package conn
