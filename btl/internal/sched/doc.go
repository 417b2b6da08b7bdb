// Package sched decides which send queue of a module sends next. The send queues are served by
// deficit round robin (Shreedhar and Varghese 1995).
//
// A Flow is the entry of one send queue in the lists of package sched. In its turn, a flow may send
// a quantum of bytes. A flow (send queue) is called fresh if it has become active and has not used
// up its quantum. Flows (send queues) that are fresh are served before those that are not, as in
// FQ-CoDel (RFC 8290).
//
//	Add --> fresh --+
//	  \             +--> Next --> a turn, Charge --> EndTurn --> old, at the end
//	   +--> old  ---+                            \
//	                                              +--> Remove: nothing to send
//
// Three things to know:
//   - Package sched does not use packets or windows. The caller of package sched decides whether a
//     flow is allowed to send.
//   - If a packet exceeds the deficit of a flow, it is sent nevertheless, and the excess is
//     subtracted from the flow's next quantum. Because a packet may exceed the deficit, the
//     scheduler need not know the size of a packet before the packet is sent.
//   - A Balance divides the turns of one endpoint between its small and its large fragments.
//
// To read the code, begin with RoundRobin. The types of package sched are not safe for concurrent
// use.
package sched
