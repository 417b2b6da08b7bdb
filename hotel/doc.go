// Package hotel keeps values with time-outs, as a table of timers. Check-in stores a value (the
// guest) with a time-out in a free element of the table (the room), and returns the number of the
// room. Check-out with the room's number removes the value before its time-out, and Evict returns
// the values whose time-out is over. The package is made for the retransmission timers of a send
// window, where a sent segment checks in and an acknowledged segment checks out. Nearly every value
// is expected to check out long before its time-out.
//
// The contract is that of Open MPI's opal_hotel. The operations check in, check out, knock and
// evict, and the error of a full table, have the same names as in opal_hotel. Package hotel differs
// from opal_hotel in three properties. First, the current time is an argument of each operation.
// Second, Evict returns the expired values as results, and the hotel calls no function of its user.
// Third, the number of a room contains a generation, so that the number of a value that was already
// removed is refused, and does not remove the next value in the same room.
//
// # Layout
//
// The time-outs are rounded up to ticks and kept in a timing wheel (Varghese and Lauck, "Hashed
// and Hierarchical Timing Wheels", SOSP 1987, scheme 6). A second timing wheel holds later
// time-outs (scheme 7 of the same paper, two levels). Each operation of a Hotel takes constant
// time on average, for any length of time-out.
//
//	near   2 x Slots lists, one per tick of the present and the next revolution
//	far    Slots lists, one per later revolution (modulo Slots)
//	rooms  tick, generation and list links of each room, with a stack of the free rooms
//
//	          cur                                limit
//	  ---------|----------------------------------|-------------------------------> ticks
//	   evicted |  near (one list for each tick)   |  far (moves to near at the limit)
//
// Each list of the first timing wheel (near) holds the values of one tick, in the order of
// their check-in. A value of the second timing wheel (far) is examined once in Slots revolutions
// until it moves to the first wheel. A bitmap for each timing wheel finds the next list that is not
// empty.
//
// A Hotel belongs to one goroutine at a time. A Hotel has no lock, and allocates nothing after New.
package hotel
