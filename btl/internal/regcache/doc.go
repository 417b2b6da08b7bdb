// Package regcache keeps memory registered with a fabric, so that the network reads it where it
// lies. To register memory costs more than many messages, so a Cache shares one registration among
// all who ask for memory inside of its range, and keeps some that nobody uses.
//
//	Register --> in use --last Close--> idle, oldest first --more than Keep--> deregistered
//	                ^                     |
//	                +------ Register -----+
//
// Three things to know:
//   - A range is found by its addresses. A range that covers all of the memory is shared.
//   - Find returns ranges in use alone: an idle range may be deregistered at any time.
//   - A Cache keeps the memory of its ranges reachable until they are deregistered.
//
// Start reading at Register.
//
// A Cache belongs to the goroutine of its owner.
package regcache
