// Package flush keeps the pending calls of Flush and Fence of one endpoint, and decides when each
// call is complete.
//
//	Add, Fence --> waits for fragments that are queued, the last of each flow
//	   Sent   -->  waits for an acknowledgement below a number
//	   Next   -->  done, in the order of the calls
//
// Three things to know:
//   - A flush is complete when the peer has acknowledged all packets of the fragments that were
//     queued before the flush.
//   - A fence is a flush without a callback. Fragments that are queued after a fence are sent only
//     when the fence is complete.
//   - If the peer refuses a message whose send was already reported as done, the next flush returns
//     the error of the message.
//
// A Queue does not process packets. A Queue is not safe for concurrent use.
package flush
