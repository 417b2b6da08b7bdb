// Package owed lists the endpoints that must send an ACK to their peers, in the order in which the
// ACKs are due.
//
//	Owe --> Soon   --First, Behind--> the owner sends what is due --Settle--> off the list
//	    --> Later (ACKs for lone replies, which wait much longer)
//
// Three things to know:
//   - All ACKs of one list have the same delay. A new ACK is appended to the end of its list, but
//     an ACK that is due immediately is put at the front.
//   - A Debt contains the endpoint's Receiver, which determines when the ACK is due.
//   - When a poll receives no packet, Ripen makes those ACKs due that cover at least a batch of
//     packets, because it is possible that a sender waits for the ACK of a batch.
//
// The types of package owed are not safe for concurrent use.
package owed
