// Package peer has the endpoints of a module, which are the connections to its peers, and what all
// endpoints share (Services).
//
//	            btl: Module, the order of a pass, callbacks
//	             |                               |
//	             |                receive: packets, until a handler gets them
//	             v                               v
//	+--------------------------- Services -----------------------------+
//	|  Sender  Packs  Links  Writer  Buffers    what is sent           |
//	|  Sent  Acks  Flushes  Timers              what becomes of it     |
//	|  Frags  Outbox  Endings                   what the owner gets    |
//	+------------------------------------------------------------------+
//	     |                  |                           |
//	  Endpoint           Fragment             port, reliability, meet, ...
//
// Three things help to read the code:
//
//   - Each part of Services has state of its own, in the file with the type of the part. A part
//     reaches the other parts by its pointer to Services.
//   - An Endpoint and a Fragment are parts of the owner's endpoint and fragment (Owner). Only this
//     package changes their state.
//   - Nothing here calls package btl or receive, except by the functions of Owner.
//
// Begin with services.go, and then follow a message: Sender.Send in send.go, Links in link.go, and
// Sent in on_ack.go. Services belong to one goroutine, and have no lock and no clock.
package peer
