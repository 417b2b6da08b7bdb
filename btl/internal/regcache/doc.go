// Package regcache keeps memory registered with a fabric, so that the network reads messages
// directly from the caller's memory. Registering memory costs more than sending many messages.
// A Cache therefore shares a registration between all callers whose memory lies inside its
// range, and keeps some unused registrations.
//
//	Register --> in use --last Close--> idle, oldest first --more than Keep--> deregistered
//	                ^                     |
//	                +------ Register -----+
//
// Three things to know:
//   - A Cache finds a registered range by its address. Memory shares a range that covers it
//     completely.
//   - Find returns only ranges in use, because an unused range may be deregistered at any time.
//   - A Cache keeps the memory of its ranges reachable for the garbage collector until they are
//     deregistered.
//
// Start reading at Register.
//
// A Cache belongs to the goroutine of its owner.
package regcache
