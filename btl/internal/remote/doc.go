// Package remote manages the memory regions that a module exposes, the rights of peers in the
// regions, and the operations (puts, gets, atomics) between the module and its peers.
//
// A Service contains the Regions of one module, and finds a Region by its Handle. A Region is
// exposed memory with Rights. A Peer contains the unanswered Operations to one peer, and the unsent
// answers to this peer. An Operation is the additional state of a fragment for a get, an atomic
// operation, an answer, or a put with a notification.
//
//	requests  AskGet, AskAtomic --> Asked --> waits --Answered--> End
//	packets   of a peer --> Accept --> Outcome
//
// The following rules apply to package remote:
//   - Package remote processes packets that are already parsed, sends no packets, and does not use
//     endpoints, links or clocks. The type parameter F is the module's type of a fragment to be
//     sent.
//   - Peers write to a region only with a right that the application has granted, and never after a
//     call of Withdraw.
//   - A Peer is allocated when it is first needed. A nil *Peer has no operations.
//
// A Service and its Peers are not safe for concurrent use.
package remote
