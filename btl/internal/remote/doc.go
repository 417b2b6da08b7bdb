// Package remote is access to memory from afar: the regions that a module exposes, who may do what
// there, and the operations that it has asked of its peers, or owes them.
//
//	Service   of one module: its regions by Handle, and what it does for its peers
//	  Region    exposed memory, with Rights; of a get the caller's memory, for one peer alone
//	Peer      of one peer: what was asked of it and is not answered, what it is owed, its notices
//	  Operation what a send has that is more than a message or a plain put
//
//	asks:   AskGet, AskAtomic --> Asked --> waits --Answered--> End
//	serves: a packet --Accept--> Outcome: refused, or written, read, changed; what ends by it
//
// Three things to know:
//   - The package is given packets that were read, and returns decisions. It sends nothing. It
//     knows no endpoint, no link and no time. F is the owner's record of a send.
//   - Nothing is written without a right that the owner of the memory gave, nor after Withdraw.
//   - A Peer is made when it is first needed. A nil *Peer has no operations.
//
// Start reading at Service.Reach, then Service.Accept.
//
// A Service and its Peers belong to the goroutine of their owner.
package remote
