// Package session is how the two sides of a measurement agree: on a TCP connection beside what is
// measured, which carries the addresses of their layers, the parameters of every round and its
// results, and never a message that is measured.
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
