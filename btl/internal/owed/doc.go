// Package owed keeps the endpoints whose peers have to receive an ACK, in the order in which the
// ACKs are due.
//
//	Owe --> Soon   --First, Behind--> the owner sends what is due --Settle--> off the list
//	    --> Later (ACKs for lone replies, which wait much longer)
//
// Three things to know:
//   - All ACKs of a list have the same delay, so a new ACK is appended to the list, or put at the
//     front if it is due immediately.
//   - A Debt contains the endpoint's Receiver, which determines when the ACK is due.
//   - When a poll receives no packet, Ripen makes those ACKs due that cover at least a batch of
//     packets, because a sender may wait for the ACK of a batch.
//
// All types of this package belong to one goroutine.
package owed
