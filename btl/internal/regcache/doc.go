// Package regcache keeps memory registered with a fabric, so that the network reads
// messages directly from the application's memory. Registering memory costs more than
// sending many messages.
//
//	Register --> in use --last Close--> idle, oldest first --more than Keep--> deregistered
//	                ^                     |
//	                +------ Register -----+
//
// Three things to know:
//   - A Cache finds a registered range by its address, and shares the range between all users whose
//     memory lies completely inside the range.
//   - Find returns only ranges in use, because an unused range may be deregistered at any time.
//   - A Cache keeps the memory of its ranges reachable for the garbage collector until they are
//     deregistered.
//
// A Cache belongs to one goroutine.
package regcache
