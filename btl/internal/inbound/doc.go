// Package inbound holds the receive state of a connection, except for the receive window. The
// receive state in package inbound consists of the refused fragments and the order in which chunks
// have to arrive.
//
//	link       refusals                                 order
//	sequenced  Refusals, told by a Nack for each        any, Pieces of a Pack together
//	counted    Counted, told before the next Ack        Counted.Next, and WhyLost
//
// The package decides and keeps no packet. The caller drops, acknowledges and delivers. All types
// of this package belong to one goroutine.
package inbound
