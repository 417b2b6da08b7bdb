// Package remote implements remote memory access. Package remote manages the memory regions that
// a module exposes, the rights of peers in the regions, and the operations (puts, gets, atomics)
// between the module and its peers.
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
//   - The package gets parsed packets and returns decisions. The package sends nothing, and knows
//     no endpoints, links or times. The type parameter F is the owner's record of a send.
//   - A region is written only with a right that the owner of the memory has granted, and never
//     after Withdraw.
//   - A Peer is created when it is first needed. A nil *Peer has no operations.
//
// Start reading at Service.Reach, then Service.Accept.
//
// A Service and its Peers belong to the goroutine of their owner.
package remote
