// Package remote manages the memory regions that a module exposes, the rights of peers in the
// regions, and the operations (puts, gets, atomics) between the module and its peers.
//
// A Service contains the Regions of one module, with their Handles as keys. A Region is exposed
// memory with Rights. A Peer contains the unanswered Operations to one peer, and the unsent answers
// to this peer. An Operation is the additional state of a fragment for a get, an atomic operation,
// an answer, or a put with a notification.
//
//	requests  AskGet, AskAtomic --> Asked --> waits --Answered--> End
//	packets   of a peer --> Accept --> Outcome
//
// The following rules apply to package remote:
//   - Package remote processes parsed packets, sends nothing, and does not use endpoints, links or
//     clocks. The type parameter F is the module's type of a fragment to be sent.
//   - A region is written only with a right that the application has granted, and never after
//     Withdraw.
//   - A Peer is allocated when it is first needed. A nil *Peer has no operations.
//
// Only one goroutine may use a Service and its Peers.
package remote
