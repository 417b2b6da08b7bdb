// Package bounded is what a program listens to strangers with: whatever they send, and however many
// they are, they cost a bounded amount of memory and goroutines, and nobody else waits for them.
//
//	net.Listener --> Listener --> Guest    at most so many at once; the silent give way
//	                 Guest    --> Lines    at most so many bytes a line
//	                 Listener --> Server   HTTP, for metrics
//
// A guest is silent until the program calls Guest.Proven: it has said something that only a peer
// says. When all places are taken, a newcomer gets the place of a silent guest, of the address
// that has most of them the one that came first. So a stranger that says nothing costs its own
// place, and many strangers of one address cost each other theirs. When all guests are proven, the
// newcomer is refused. Both are told why by a line, and are counted.
//
// The methods of Listener and Guest may be called from any goroutine; Lines belongs to one.
package bounded
