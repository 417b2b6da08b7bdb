// Package sched decides which send queue of a module sends next. The send queues are served by
// deficit round robin (Shreedhar and Varghese 1995).
//
// A Flow is the place of one queue in the order. In its turn, a flow may send a quantum of bytes.
// Flows (send queues) that have become active and have not used up their quantum are called fresh,
// and are served before all other flows, as in FQ-CoDel (RFC 8290).
//
//	Add --> fresh --+
//	  \             +--> Next --> a turn, Charge --> EndTurn --> old, at the end
//	   +--> old  ---+                            \
//	                                              +--> Remove: nothing to send
//
// Three things to know:
//   - The package does not use packets or windows. The caller decides whether a flow may send.
//   - A packet that exceeds the deficit of a flow is still sent, and the excess is charged to the
//     flow's next turn. The size of a packet need not be known in advance.
//   - A Balance divides the turns of one endpoint between its small and its large fragments.
//
// Start reading at RoundRobin. All types of this package belong to one goroutine.
package sched
