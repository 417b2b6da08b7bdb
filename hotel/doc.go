// Package hotel is a table of timers, each with a value. To start a timer, Checkin stores a value
// (the guest) with a time-out in a free table entry (a room), and returns the room number. Checkout
// removes a value by its room number before the time-out. Evict removes and returns values whose
// time-out has expired. Package hotel is made for retransmission timers, which are started when a
// packet is sent, and are stopped when it is acknowledged, nearly always long before the time-out.
//
// Package hotel has the same operations as Open MPI's opal_hotel, with the same names. Package
// hotel differs from opal_hotel in three properties. The first difference from opal_hotel is that
// the current time is an argument of each operation. The second difference from opal_hotel is that
// expired values are results of Evict, without a callback. The third difference from opal_hotel is
// that a room number contains a generation, so that the room number of a removed value does not
// match the next 2^32-2 values in the same room.
//
// # Layout
//
// The time-outs are rounded up to ticks and kept in a timing wheel (Varghese and Lauck, "Hashed and
// Hierarchical Timing Wheels", SOSP 1987, scheme 6). A second timing wheel holds the time-outs that
// are too far ahead for the first wheel (scheme 7 of the paper by Varghese and Lauck, with two
// levels). Each operation of a Hotel takes constant time on average, however long the time-outs
// are.
//
//	near   2 x Slots lists, one per tick of the present and the next revolution
//	far    Slots lists, one per later revolution (modulo Slots)
//	rooms  tick, generation and list links of each room, with a stack of the free rooms
//
//	          cur                                limit
//	  ---------|----------------------------------|-------------------------------> ticks
//	   evicted |  near (one list for each tick)   |  far (moves to near at the limit)
//
// Each list of the first timing wheel (near) holds the values whose time-outs end at one tick, in
// the order of their check-in. A value in the second timing wheel (far) is examined once per Slots
// revolutions of the first wheel, until it moves to the first wheel. Each timing wheel has a bitmap
// of its lists, to find the next list that is not empty.
//
// Only one goroutine at a time may use a Hotel, because a Hotel has no lock. After New, a Hotel
// allocates no memory.
package hotel
