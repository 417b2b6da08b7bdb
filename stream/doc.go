// Package stream transfers the messages of an instrument in one direction, through rings of memory.
// All messages have the same size, and a transfer may last for hours. The receiver knows which
// messages are missing.
//
//	producer                                                             reader
//	   | Next, Populate                                      Completed, Release |
//	   v                                                                        v
//	+--- ring ---------------+                              +--- ring ---------------+
//	| region 0 | region 1 | .|   Sender ==============> Receiver  | region 0 | region 1 |
//	| messages, contiguous   |                              | messages, contiguous   |
//	+------------------------+                              +------------------------+
//
// In the reliable mode, the sender writes messages to regions of the receiver's ring that the
// reader has released, and tells the receiver which messages it has written. In the reliable mode,
// no message is missing.
//
// In the unreliable mode, the sender posts datagrams to the fabric and does not wait for receivers.
// The receiver stores each datagram at its position in the ring. The receiver counts received,
// repeated, late and missing datagrams.
//
// Every message has an ordinal, a 64-bit number that counts up from Config.First. The ordinal
// determines the position of the message in the receiver's ring. A missing message is filled with
// zeros and marked as missing (Ring.Transferred).
//
// A Ring is memory of the caller that is divided into regions, and has a state for each region. A
// ring that CreateRing has made is a file, which other processes can map. A Port is the endpoint of
// a process in the network. Senders and receivers find each other by their identities. An identity
// is a line of text, exchanged by standard input and output, by files, by a callback, or over TCP
// (ExchangeStdIO, ExchangeFiles, Meeting). In both modes, the two sides exchange parameters,
// credits and final counters in control messages, which use the reliable transport.
//
//	ring.go       regions and their states       sender.go    sending side of a stream
//	engine.go     progress of all streams        cast.go      datagrams of a sender
//	run.go        clock and goroutine of a Port  put.go       puts of a sender
//	wire.go       formats on the wire            link.go      connection to one receiver
//	pace.go       rate of a sender               receiver.go  receiving side of a stream
//	data.go       endpoints for datagrams        assemble.go  datagrams into regions
//	track.go      outcome of each message        land.go      direct receive into regions
//	budget.go     work for a peer's regions      letters.go   bound of a peer's control messages
//
// The Engine of a Port has no goroutine, no contended lock and no clock, so that a simulator can
// run the same code as production. The methods of Sender and Receiver, and those of Ring that read
// or set states of regions, are safe for concurrent use, except that only one goroutine at a time
// may call Sender.Next and Sender.Populate. Functions in a Config run on the engine's goroutine,
// and must not block.
package stream
