// Package bounded provides listeners for connections from untrusted clients. Whatever data a client
// sends, the client's connections use limited memory and a limited number of goroutines, and do not
// delay the connections of other clients.
//
//	net.Listener --> Listener --> Guest    at most so many at once, the silent give way
//	                 Guest    --> Lines    at most so many bytes a line
//	                 Listener --> Server   HTTP, for metrics, one answer at a time, with pauses
//	events --> Rate --> Log                at most so many lines a second, without waiting
//
// When a Listener has reached its limit, a new connection replaces an open connection. The replaced
// connection is one of the host with the most connections, so that a host that opens many
// connections replaces its own connections, and not those of other hosts. Among the connections of
// a host, the first to give way are those whose clients have not yet sent data that only a genuine
// client can send (Guest.Spoke), and then those whose clients have been silent for longest.
//
// A connection that the program serves is proven (Guest.Proven), is never replaced, and does not
// count among the connections of its host. If all connections of a full Listener are proven, the
// Listener refuses a new connection. The Listener counts each connection that it refuses or
// replaces, and writes the reason to the connection before closing it. All IPv6 addresses with the
// same first half are one host.
//
// The methods of Listener and Guest are safe for concurrent use. A Lines belongs to one goroutine.
package bounded
