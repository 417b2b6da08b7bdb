// Package keep stores received data that a program keeps after the data was delivered, and messages
// that wait until the program pulls them.
//
// A message that arrives in one packet stays in its receive buffer while it is kept, and a spare
// buffer is posted in place of this buffer. A large message stays in its reassembly memory while it
// is kept. The memory of a kept large message counts towards the limit on kept memory, and not
// towards the limit on reassembly memory. Keep copies a message to separate memory if no spare
// buffer can replace the message's receive buffer, or if the message is large and would exceed the
// limit on kept memory. After a copy, the module can use the receive buffer or the reassembly
// memory for further messages.
//
//	packet buffer:   posted --> arrived --Keep--> kept --Release, the last--> spare --> posted
//	memory of large: under way --> whole --Keep--> kept --Release--> idle, or let go
//
// Until Store.Close, only one goroutine may use a Store, its Data and its Queue. After Store.Close,
// any goroutine may release Data.
package keep
