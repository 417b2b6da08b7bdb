// Package session coordinates the two sides of a measurement over a TCP control connection. It
// carries the addresses of their layers, and the parameters and results of every round, but no
// measured message.
//
//	Client -- hello -------------------> Server  versions, who is there
//	       -- setup (config, names) ---> opens   answer: names, what the provider granted
//	       -- round -------------------> arms    answer: ready
//	       == messages that are measured ==      fabric, in the layer raw or btl
//	       -- stop --------------------> ends    answer: counts, CPU time
//	       -- bye ---------------------> next client
//
// A side that fails or is interrupted tells the other one, whose hot loop ends at once. One
// goroutine drives a Client; a Server has one for each connection, and serves one client at a time.
package session
