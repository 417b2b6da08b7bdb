// Package byhost shares turns and limits between hosts, so that a host does not get more of either
// by having more members.
//
//	host "a"  [1][2][3]   --> the next turn is for 1; then a goes behind b, and 1 goes behind 3
//	host "b"  [4]         --> the turn after it is for 4
//
// A member is, for example, the queue of one peer. Turns gives each host with waiting members one
// turn after the other hosts have had one, and the members of a host share the turns of their host.
// Bound limits how much of a resource all members together may hold, and lets the hosts share the
// limit. All methods take constant time. If several goroutines use a Turns or a Bound, the caller
// must guard it with a lock.
package byhost
