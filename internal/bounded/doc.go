// Package bounded provides listeners for connections from untrusted clients. Whatever data clients
// send, their connections use a limited amount of memory and a limited number of goroutines, and do
// not delay other clients.
//
//	net.Listener --> Listener --> Guest    at most so many at once; the silent give way
//	                 Guest    --> Lines    at most so many bytes a line
//	                 Listener --> Server   HTTP, for metrics; one answer at a time, with pauses
//
// A connection is unproven until the program calls Guest.Proven, after the client has sent
// data that only a genuine client can send. When a Listener has reached its limit, a new
// connection replaces the oldest unproven connection of the address with the most unproven
// connections. Thus many clients at one address displace each other's connections, and not those of
// other addresses. When no connection is unproven, a new connection is refused. If a connection is
// refused or replaced, a line with the reason is written to it, and it is counted.
//
// The methods of Listener and Guest may be called from any goroutine. A Lines belongs to one
// goroutine.
package bounded
