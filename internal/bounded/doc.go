// Package bounded provides listeners for connections from untrusted clients. Whatever data a client
// sends, its connections use limited memory and a limited number of goroutines, and do not delay
// other clients.
//
//	net.Listener --> Listener --> Guest    at most so many at once, the silent give way
//	                 Guest    --> Lines    at most so many bytes a line
//	                 Listener --> Server   HTTP, for metrics, one answer at a time, with pauses
//
// A connection is unproven until the program calls Guest.Proven, after the client has sent data
// that only a genuine client can send. When a Listener has reached its limit, a new connection
// replaces the oldest unproven connection of the address with the most unproven connections. A host
// that opens many connections from one address therefore displaces its own connections, and not
// those of other addresses. If all connections of a full Listener are proven, a new connection is
// refused. The Listener counts each connection that it refuses or replaces, and writes the reason
// to the connection before closing it.
//
// The methods of Listener and Guest may be called from any goroutine. A Lines belongs to one
// goroutine.
package bounded
