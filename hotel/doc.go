// Package hotel is a table of timers, each with a value. Checkin starts a timer by storing a value
// (the guest) with a time-out in a free table entry (the room), and returns the number of the room.
// Checkout removes a value by its room number before the time-out, and Evict returns values whose
// time-out has expired. The package is made for retransmission timers, which are started when a
// packet is sent, and are stopped when the packet is acknowledged. Nearly every timer is expected
// to be stopped long before its time-out.
//
// The contract is that of Open MPI's opal_hotel. The names of the operations and of the error for a
// full table are those of opal_hotel. Package hotel differs from opal_hotel in three properties.
// The first difference from opal_hotel is that the current time is an argument of each operation.
// The second difference from opal_hotel is that expired values are results of Evict, without a
// callback. The third difference from opal_hotel is that a room number contains a generation, so
// that the room number of a removed value never matches a later value in the same room.
//
// # Layout
//
// The time-outs are rounded up to ticks and kept in a timing wheel (Varghese and Lauck, "Hashed and
// Hierarchical Timing Wheels", SOSP 1987, scheme 6). A second timing wheel holds later time-outs
// (scheme 7 of the same paper, two levels). Each operation of a Hotel takes constant time on
// average, however long the time-outs are.
//
//	near   2 x Slots lists, one per tick of the present and the next revolution
//	far    Slots lists, one per later revolution (modulo Slots)
//	rooms  tick, generation and list links of each room, with a stack of the free rooms
//
//	          cur                                limit
//	  ---------|----------------------------------|-------------------------------> ticks
//	   evicted |  near (one list for each tick)   |  far (moves to near at the limit)
//
// Each list of the first timing wheel (near) holds the values of one tick, in the order of their
// check-in. A value in the second timing wheel (far) is examined once in Slots revolutions of the
// first wheel, until it moves to the first wheel. Each timing wheel has a bitmap of its lists, to
// find the next list that is not empty.
//
// A Hotel belongs to one goroutine at a time. A Hotel has no lock, and allocates nothing after New.
package hotel
