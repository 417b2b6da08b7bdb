// Package stream moves the messages of an instrument, all of one size, in one direction, through
// rings of memory, for hours, and knows of each one that is missing.
//
//	producer                                                             reader
//	   | Next, Populate                                      Completed, Release |
//	   v                                                                        v
//	+--- ring ---------------+                              +--- ring ---------------+
//	| region 0 | region 1 | .|   Sender ==============> Receiver  | region 0 | region 1 |
//	| messages, contiguous   |                              | messages, contiguous   |
//	+------------------------+                              +------------------------+
//
//	reliable     Sender puts messages into the reader's ring, as far as the reader has given
//	             regions back, and tells how far they are in place: nothing is missing
//	unreliable   Sender posts datagrams straight to the fabric and waits for nobody; the receiver
//	             puts each into its place and counts what came, came twice, came late, never came
//
// Every message has an ordinal, 64 bits that count on from Config.First. Its place in the
// receiver's ring follows from it, so whatever is lost, what is there stands where it belongs, and
// what is missing is zero and marked so (Ring.Transferred).
//
// A Ring is memory of the caller and the states of its regions; with CreateRing it is a file that
// other processes can map, too. A Port is a process' place in the network. Senders and receivers
// meet by their identities, lines of text that an exchange carries: by standard input and output,
// by files, by a callback, or by one address (ExchangeStdIO, ExchangeFiles, Meeting). Control
// messages (parameters, credit, the end and the reports) go by the transport in both modes.
//
//	ring.go        regions and their states      track.go     what became of each message
//	engine.go      one pass of everything        assemble.go  datagrams into regions, land.go
//	sender.go      cast.go: datagrams            wire.go      what is on the wire
//	link.go        put.go: puts                  pace.go      rate
//	receiver.go    data.go: endpoints            run.go       Port: the clock and the goroutine
//
// The Engine below a Port has no goroutine, no lock that anybody waits for, and no clock: it runs
// in the simulator as it runs in production. Methods of Ring, Sender and Receiver may be called
// from any goroutine; functions in a Config run on the engine's, and must not block.
package stream
