// Command reqrep asks a server for work whose length nobody knows beforehand: numbers that, hashed
// with a text, begin with so many zero bits. It is request and response with deadlines, over
// btl/call, and checks what it gets: that numbers are right, that the handler's errors come back,
// and that the server works no more for who had a deadline, or took a request back.
//
//	client                                   server
//	search, 12 bits ------------------------> a goroutine: 0, 1, 2 ...
//	check <-------------------- a number ----
//	search, hopeless, deadline -------------> ends by itself
//	search, hopeless, then cancel ----------> ends when it is told
//	busy? ----------------------------------> answered at once: how many of yours run
//
// Clients run side by side, each with a module of its own; what they share is the server.
package main
