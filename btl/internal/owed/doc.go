// Package owed keeps the endpoints that owe their peers an ACK, in the order in which the ACKs are
// due.
//
//	Owe --> list   --First, Behind--> the owner sends what is due --Settle--> off the list
//	    --> later: ACKs of lone answers, which wait much longer
//
// Three things to know:
//   - All delays on a list are equal, so a new ACK goes to the end, or to the front if it is due
//     now.
//   - A Debt has the endpoint's Receiver, which knows when its ACK is due.
//   - In an idle pass Ripen makes ACKs due that cover at least a batch, for which a sender may
//     wait.
//
// Start reading at Ledger.Owe.
//
// What is here belongs to the goroutine of its owner.
package owed
