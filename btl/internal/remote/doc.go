// Package remote manages the memory regions that a module exposes, the rights of peers in the
// regions, and the operations (puts, gets, atomics) between the module and its peers.
//
// A Service holds the Regions of one module by Handle. A Region is exposed memory with Rights. A
// Peer holds the unanswered Operations to one peer, and the unsent answers to this peer. An
// Operation is the additional state of a fragment for a get, an atomic operation, an answer, or a
// put with a notification.
//
//	requests  AskGet, AskAtomic --> Asked --> waits --Answered--> End
//	packets   of a peer --> Accept --> Outcome
//
// The following rules apply to package remote:
//   - The package handles parsed packets, sends nothing, and does not use endpoints, links or
//     clocks. The type parameter F is the module's type of a fragment to be sent.
//   - A region is written only with a right that the application has granted, and never after
//     Withdraw.
//   - A Peer is created when it is first needed. A nil *Peer has no operations.
//
// A Service and its Peers belong to one goroutine.
package remote
