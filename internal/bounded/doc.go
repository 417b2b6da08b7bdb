// Package bounded provides listeners for connections of strangers. Whatever the strangers send,
// their connections use a bounded amount of memory and goroutines, and delay no other client.
//
//	net.Listener --> Listener --> Guest    at most so many at once; the silent give way
//	                 Guest    --> Lines    at most so many bytes a line
//	                 Listener --> Server   HTTP, for metrics
//
// A guest is silent until the program calls Guest.Proven, after the guest has sent data that only a
// genuine peer can send. When all places are taken, a newcomer replaces the oldest silent guest of
// the address with the most silent guests. A silent stranger can therefore lose only its own place,
// and many strangers of one address displace each other. When all guests are proven, the newcomer
// is refused. A displaced guest and a refused newcomer get a line with the reason, and are counted.
//
// The methods of Listener and Guest may be called from any goroutine. A Lines belongs to one
// goroutine.
package bounded
