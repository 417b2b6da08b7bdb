// Package hotel keeps guests that must leave by a deadline: a guest checks in for a stay and gets a
// room, checks out early with the room's number, or is evicted when its time is up. Made for the
// timers of a send window, where a segment checks in when it is posted and checks out when it is
// acknowledged, it expects nearly every guest to leave long before its deadline. So it is in the
// recovery profile usnic; in adaptive the guests are peers. The contract is that of Open MPI's
// opal_hotel (check in, check out, knock, evict; a full hotel is an error), with three differences:
// the instant is an argument, evicted guests are pulled instead of called back, and a room's number
// carries a generation, so a number kept too long is refused instead of throwing out a stranger.
//
// # Layout
//
// Deadlines are rounded up to ticks and kept in a timing wheel (Varghese and Lauck, "Hashed and
// Hierarchical Timing Wheels", SOSP 1987, scheme 6), with a second wheel for what lies far ahead
// (their scheme 7, two levels). All four operations are O(1) for any stay.
//
//	near   2 x Slots lists, one per tick: the revolution that is running and the next one
//	far    Slots lists, one per revolution (modulo Slots): everything later
//	rooms  tick, generation, links of a doubly linked list of indices; the free ones are a stack
//
//	          cur                                limit
//	  ---------|----------------------------------|-------------------------------> ticks
//	   evicted |  near: every list holds one tick |  far: moves to near when limit passes it
//
// A list of near holds guests of one tick only, in the order of their check-in, hence Evict returns
// guests by tick and then by check-in. A guest of far is visited once when it moves to near, and
// once per Slots revolutions before. One bitmap per wheel finds the next list that is not empty.
//
// A Hotel belongs to one goroutine at a time; it has no lock, and after New it allocates nothing.
package hotel
