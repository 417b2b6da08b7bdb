// Package keep holds received data that a program keeps after the delivery, and messages that wait
// until the program pulls them.
//
// A message that arrives in one packet is kept in its receive buffer, and a spare buffer is posted
// in place of that buffer. A large message is kept in its reassembly memory, which then does not
// count towards the limit for reassembly any more. If no spare buffer is left or the memory limit
// is reached, the data is copied, so that kept data does not hinder the reception of other
// messages.
//
//	packet buffer:   posted --> arrived --Keep--> kept --Release, the last--> spare --> posted
//	memory of large: under way --> whole --Keep--> kept --Release--> idle, or let go
//
// A Store, its Data and its Queue belong to one goroutine until Store.Close. After Close, any
// goroutine may release Data.
package keep
