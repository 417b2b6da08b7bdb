// Command reqrep requests work of unpredictable length from a server: a number whose hash with a
// text begins with a given count of zero bits. It shows request and response with deadlines, over
// btl/call. It checks that the numbers are right, that the handler's errors come back, and that the
// server stops working for a request whose deadline has passed or that was cancelled.
//
//	client                                   server
//	search, 12 bits ------------------------> a goroutine: 0, 1, 2 ...
//	check <-------------------- a number ----
//	search, hopeless, deadline -------------> ends by itself
//	search, hopeless, then cancel ----------> ends when it is told
//	busy? ----------------------------------> answered at once: how many of yours run
//
// Clients run concurrently, each with its own module. They share only the server.
package main
