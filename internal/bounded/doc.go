// Package bounded provides listeners for connections from untrusted clients. Whatever clients
// send, their connections use a limited amount of memory and goroutines, and delay no other
// client.
//
//	net.Listener --> Listener --> Guest    at most so many at once; the silent give way
//	                 Guest    --> Lines    at most so many bytes a line
//	                 Listener --> Server   HTTP, for metrics
//
// A connection is unproven until the program calls Guest.Proven, after the client has sent
// data that only a genuine client can send. When a Listener has reached its limit, a new
// connection replaces the oldest unproven connection of the address with the most unproven
// connections. Many clients at one address displace only each other. When no connection is
// unproven, a new connection is refused. A closed or refused connection first gets a line
// with the reason, and is counted.
//
// The methods of Listener and Guest may be called from any goroutine. A Lines belongs to one
// goroutine.
package bounded
