// Package keep stores received data that a program keeps after the delivery, and messages that wait
// until the program pulls them.
//
// A message that arrives in one packet is kept in its receive buffer, and a spare buffer is posted
// in place of that buffer. A large message is kept in its reassembly memory, which then no longer
// counts towards the limit on reassembly memory. If no spare buffer is left or the limit on kept
// memory is reached, the data is copied, so that other messages can still be received.
//
//	packet buffer:   posted --> arrived --Keep--> kept --Release, the last--> spare --> posted
//	memory of large: under way --> whole --Keep--> kept --Release--> idle, or let go
//
// Until Store.Close, only one goroutine may use a Store, its Data and its Queue. After Store.Close,
// any goroutine may release Data.
package keep
