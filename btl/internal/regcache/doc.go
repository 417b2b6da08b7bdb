// Package regcache keeps memory registered with a fabric, so that the network reads messages
// directly from the application's memory. Registering memory takes more time than sending many
// messages.
//
//	Register --> in use, by one user or several --last Close--> deregistered
//
// Three things to know:
//   - A Cache finds a registered range by its address. All users whose memory is completely inside
//     a range share this range.
//   - A range is deregistered when its last user calls Close.
//   - A Cache refers to the memory of its ranges until they are deregistered, so that the garbage
//     collector does not free the memory.
//
// Only one goroutine may use a Cache.
package regcache
