// Package bounded provides listeners for connections from untrusted clients. Whatever data a client
// sends, the client's connections use limited memory and a limited number of goroutines, and do not
// delay the connections of other clients.
//
//	net.Listener --> Listener --> Guest    at most so many at once, the silent give way
//	                 Guest    --> Lines    at most so many bytes a line
//	                 Listener --> Server   HTTP, for metrics, one answer at a time, with pauses
//
// A connection is unproven until the program calls Guest.Proven, after the client has sent data
// that only a genuine client can send. When a Listener has reached its limit, a new connection
// replaces the oldest unproven connection of the address with the most unproven connections. If a
// host opens many connections from one address, its new connections therefore replace connections
// from the same address, and not connections from other addresses. If all connections of a full
// Listener are proven, the Listener refuses a new connection. The Listener counts each connection
// that it refuses or replaces, and writes the reason to the connection before closing it.
//
// The methods of Listener and Guest may be called from any goroutine. A Lines belongs to one
// goroutine.
package bounded
