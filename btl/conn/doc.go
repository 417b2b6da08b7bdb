// Package conn is streams of bytes over a runner.Runner, as net.Conn and net.Listener: what is
// written for TCP, net/http and net/rpc among it, runs over the transport. All that it uses is
// public.
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
// none. Nobody has more than inFlightMax fragments of data of a Conn under way, so that is how many
// gaps there may be at the other side. What is for a Conn that is gone is dropped; what does not
// keep to these rules ends the endpoint.
//
// Small Writes in a burst are taken over into a buffer without the module, and leave together:
// writebuffer.go. A Read of any Conn of the Node sends what waits there. So does a goroutine that
// the first such Write starts, which has its turn when the writer waits.
//
// A Conn that nobody reads stops its writer when a window is unread, which is WindowBytes and
// grows where the path needs more: growth.go. Those bytes are all that it keeps, and no memory is
// taken for them before one comes, the last of them perhaps. What was written before Close arrives,
// if the other side reads it. A Conn ends with its endpoint: who waits for a peer that has died is
// told after btl.Config.PeerTimeout, and KeepAlive more where nothing is under way to it.
//
// All may be used by any goroutine; what a Conn is made of belongs to who drives the Runner.
package conn
