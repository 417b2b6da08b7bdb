// Package byhost divides turns (as in round robin) and resource limits equally among hosts, so that
// a host with many members gets no more than a host with one member.
//
//	host "a"  [1][2][3]   --> the next turn is for 1; then a goes behind b, and 1 goes behind 3
//	host "b"  [4]         --> the turn after it is for 4
//
// A member is, for example, the queue of one peer. Turns gives turns to the hosts with waiting
// members in rotation, and the members of a host share the turns of their host. Bound limits how
// much of a resource all members together may hold, and lets the hosts share the limit. All methods
// take constant time. A Turns or a Bound is not safe for concurrent use without a lock.
package byhost
