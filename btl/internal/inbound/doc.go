// Package inbound holds the receive state of a connection other than the receive window: which
// fragments were refused, and in which order chunks have to arrive.
//
//	link       refusals                                 order
//	sequenced  Refusals, told by a Nack for each        any, Pieces of a Pack together
//	counted    Counted, told before the next Ack        Counted.Next, and WhyLost
//
// The package decides and keeps no packet. The caller drops, acknowledges and delivers. All types
// of this package belong to one goroutine.
package inbound
