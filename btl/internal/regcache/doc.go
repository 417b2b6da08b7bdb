// Package regcache keeps memory registered with a fabric, so that the network reads messages
// directly from the application's memory. Registering memory takes more time than sending many
// messages.
//
//	Register --> in use, by one user or several --last Close--> deregistered
//
// Three things to know:
//   - A Cache finds a registered range by its address, and shares the range between all users whose
//     memory lies completely inside the range.
//   - The Close of its last user deregisters a range.
//   - A Cache keeps the memory of its ranges reachable for the garbage collector until they are
//     deregistered.
//
// A Cache belongs to one goroutine.
package regcache
