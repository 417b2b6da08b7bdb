// Package owed keeps the endpoints whose peers have to receive an ACK, in the order in which the
// ACKs are due.
//
//	Owe --> list   --First, Behind--> the owner sends what is due --Settle--> off the list
//	    --> later (ACKs for lone replies, which wait much longer)
//
// Three things to know:
//   - All ACKs of a list have the same delay, so a new ACK is added at the end of the list, or at
//     the front if it is due at once.
//   - A Debt contains the endpoint's Receiver, which determines when the ACK is due.
//   - When a poll receives no packet, Ripen makes those ACKs due that cover at least a batch of
//     packets, because the sender may wait for such an ACK.
//
// All types of this package belong to one goroutine.
package owed
