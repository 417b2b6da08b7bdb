// Package conn provides byte streams over a runner.Runner, as net.Conn and net.Listener: programs
// written for TCP, such as those with net/http or net/rpc, run over the transport. The package uses
// only public API.
//
//	Dial                                                    Listener
//	  +-- open: service, limit ------------------------------>| no such one: refuse
//	  |<------------------------------------ accept: limit ---+ Accept
//	Write -- data: offset, bytes ---------------------------->| put in order, Read
//	  |<------------------------------------ credit: limit ---+ when a quarter of a window was read
//	CloseWrite -- fin: length ------------------------------->| EOF
//	  |<---------------------------------------------- stop --+ CloseRead: nobody reads any more
//
// Close is both fin and stop. A message is a head of 16 bytes, little-endian, in a fragment of its
// own:
//
//	0  1  kind: open 1, accept 2, refuse 3, data 4, credit 5, fin 6, stop 7
//	1  1  1 if the id is one of the sender's, who has dialed; else 0
//	2  2  of refuse: 1 no such service, 2 its backlog is full, 3 too many Conns; else 0
//	4  4  id
//	8  8  offset or limit: bytes since the beginning of the direction; of others 0
//	16    of data the bytes, of open the name of the service
//
// Fragments overtake each other. Offsets put bytes in order, and limits, which only grow, need
// none. A side has at most inFlightMax data fragments of a Conn in flight, which bounds the gaps at
// the other side. Messages for a Conn that is gone are dropped; a message that violates these rules
// ends the endpoint.
//
// Small Writes in a burst are buffered, without use of the module, and leave together:
// writebuffer.go. A Read of any Conn of the Node sends the buffered bytes. So does a goroutine that
// the first such Write starts, and which runs when the writer blocks.
//
// A Conn that is not read stops its writer when a window of bytes is unread: WindowBytes, or more
// if the path needs it, see growth.go. The window bounds the memory of a Conn, which is allocated
// only as bytes arrive. Bytes written before Close are delivered, if the peer reads them. A Conn
// ends with its endpoint: calls that wait for a dead peer fail after btl.Config.PeerTimeout, plus
// KeepAlive if nothing is in flight to it.
//
// Any goroutine may call all methods; the state of a Conn belongs to the goroutine that drives the
// Runner.
package conn
