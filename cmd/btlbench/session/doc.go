// Package session coordinates the two sides of a measurement over a TCP control connection. The
// control connection carries the addresses of the layers, and the parameters and results of every
// round, but no measured message.
//
//	Client -- hello -------------------> Server  versions, who is there
//	       -- setup (config, names) ---> opens   answer: names, what the provider granted
//	       -- round -------------------> arms    answer: ready
//	       == messages that are measured ==      fabric, in the layer raw or btl
//	       -- stop --------------------> ends    answer: counts, CPU time
//	       -- bye ---------------------> next client
//
// A side that fails or is interrupted tells the other side, whose hot loop ends at once. One
// goroutine uses a Client, and a Server has one goroutine for each connection.
package session
