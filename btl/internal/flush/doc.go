// Package flush keeps the pending calls of Flush and Fence of one endpoint, and says when each is
// done.
//
//	Add, Fence --> waits for fragments that are queued, the last of each flow
//	   Sent   -->  waits for an acknowledgement below a number
//	   Next   -->  done, in the order of the calls
//
// Three things to know:
//   - A flush waits first until the fragments before it have been sent whole, and then until all
//     numbers up to the last one's are acknowledged.
//   - A fence is a flush that no owner is told of: what was sent behind it may leave when it is
//     done.
//   - What the peer refuses after a send was reported done is told by the next flush.
//
// Start reading at Queue.
//
// A Queue knows no packet and calls nobody. It belongs to the goroutine of its owner.
package flush
