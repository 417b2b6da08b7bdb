// Package peer contains the endpoints of a module, which are the connections to its peers, and the
// state that all endpoints share (Services).
//
//	            btl, Module, the order of a pass, callbacks
//	             |                               |
//	             |                receive, packets, until a handler gets them
//	             v                               v
//	+=========================== Services =============================+
//	|  Sender  Packs  Links  Writer  Buffers    what is sent           |
//	|  Sent  Acks  Flushes  Timers              what becomes of it     |
//	|  Frags  Outbox  Endings                   what the owner gets    |
//	+==================================================================+
//	     |                  |                           |
//	  Endpoint           Fragment             port, reliability, meet, ...
//
// Three things help to read the code:
//
//   - The struct Services has parts. Each part of Services is a type with fields and methods of its
//     own, in the files that services.go names. A part calls the methods of a different part
//     through its pointer to Services.
//   - Each endpoint of package btl contains an Endpoint, and each fragment of package btl contains
//     a Fragment. Only package peer changes the state of an Endpoint or a Fragment.
//   - The code of package peer calls the packages btl and receive only through the functions in the
//     struct Owner.
//
// To read the code, begin with services.go, and then follow a message through Sender.Send in
// send.go, Links in link.go, and Sent in sent.go. Services is not safe for concurrent use.
package peer
