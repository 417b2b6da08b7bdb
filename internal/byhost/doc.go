// Package byhost shares turns between hosts, and shares the turns of a host between its members.
//
//	host "a"  [1][2][3]   --> the next turn is for 1; then a goes behind b, and 1 goes behind 3
//	host "b"  [4]         --> the turn after it is for 4
//
// A member is, for example, the queue of one peer. Each host with waiting members gets one turn
// after the other hosts have had one, so a host does not get more turns by having more members. All
// methods take constant time. If several goroutines use a Turns, the caller must guard it with a
// lock.
package byhost
