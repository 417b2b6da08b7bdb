// Package inbound keeps the receive state of a connection, except for the receive window. The
// receive state of a connection consists of the refused fragments and the order in which chunks
// must arrive.
//
//	link       refusals                                 order
//	sequenced  Refusals, told by a Nack for each        any, Pieces of a Pack together
//	counted    Counted, told before the next Ack        Counted.Next, and WhyLost
//
// Package inbound decides which packets to refuse, and stores no packets. The caller of package
// inbound drops, acknowledges or delivers the packets. The types of package inbound are not safe
// for concurrent use.
package inbound
