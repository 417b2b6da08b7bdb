// Package owed keeps the endpoints that owe their peers an ACK, in the order in which the ACKs
// are due.
//
//	Owe --> list   --First, Behind--> the owner sends what is due --Settle--> off the list
//	    --> later: ACKs of lone answers, which wait much longer
//
// Three things to know:
//   - All ACKs of a list have the same delay. A new ACK is added at the end of the list, or at
//     the front if the ACK is due at once.
//   - A Debt contains the endpoint's Receiver, which knows when its ACK is due.
//   - When a progress pass receives no packet, Ripen makes those ACKs due that cover at least a
//     batch of packets, because the sender may wait for such an ACK.
//
// Start reading at Ledger.Owe.
//
// All types of this package belong to the goroutine of their owner.
package owed
