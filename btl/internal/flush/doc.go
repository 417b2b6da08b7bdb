// Package flush keeps the pending calls of Flush and Fence of one endpoint, and decides when
// each call is complete.
//
//	Add, Fence --> waits for fragments that are queued, the last of each flow
//	   Sent   -->  waits for an acknowledgement below a number
//	   Next   -->  done, in the order of the calls
//
// Three things to know:
//   - A flush waits until all fragments queued before the flush have been sent completely, and
//     until the peer has acknowledged their packets.
//   - A fence is a flush without a callback. Fragments queued after a fence are sent only when
//     the fence is complete.
//   - If the peer refuses a message that was already reported as done, the next flush returns the
//     error.
//
// Start reading at Queue.
//
// A Queue handles no packets and calls no other package. A Queue belongs to the goroutine of
// its owner.
package flush
