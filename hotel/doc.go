// Package hotel keeps guests that must leave by a deadline. A guest checks in for a stay and gets a
// room. The guest checks out early with the room's number, or is evicted when the stay is over. The
// package is made for the timers of a send window, where a posted segment checks in and an
// acknowledged segment checks out. Nearly every guest is expected to leave long before its
// deadline. In the recovery profile usnic the guests are segments, and in adaptive the guests are
// peers.
//
// The contract is that of Open MPI's opal_hotel. The operations are check in, check out, knock and
// evict, and a full hotel is an error. Three things differ. The current instant is an argument. The
// caller of Evict gets evicted guests as results, and the hotel calls no function back. A room's
// number carries a generation, and a number that was kept too long is refused instead of evicting
// another guest.
//
// # Layout
//
// Deadlines are rounded up to ticks and kept in a timing wheel (Varghese and Lauck, "Hashed and
// Hierarchical Timing Wheels", SOSP 1987, scheme 6). A second wheel holds later deadlines (scheme 7
// of the same paper, two levels). All four operations are O(1) for any stay.
//
//	near   2 x Slots lists, one per tick: the revolution that is running and the next one
//	far    Slots lists, one per revolution (modulo Slots): everything later
//	rooms  tick, generation, links of a doubly linked list of indices; the free ones are a stack
//
//	          cur                                limit
//	  ---------|----------------------------------|-------------------------------> ticks
//	   evicted |  near: every list holds one tick |  far: moves to near when limit passes it
//
// A list of near holds guests of one tick only, in the order of their check-in. Evict therefore
// returns guests by tick and then by check-in. A guest of far is visited when it moves to near, and
// once per Slots revolutions before that. One bitmap per wheel finds the next list that is not
// empty.
//
// A Hotel belongs to one goroutine at a time. A Hotel has no lock, and allocates nothing after New.
package hotel
