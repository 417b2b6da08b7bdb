// Package regcache keeps memory registered with a fabric, so that the network device reads messages
// directly from the application's memory. The registration of memory can take more time than the
// sending of many messages.
//
//	Register --> in use, by one user or several --last Close--> deregistered
//
// Three things to know:
//   - A Cache finds a registered range by its address. All users whose memory is completely inside
//     one registered range share the registration of the range.
//   - A registered range is deregistered when its last user calls Close.
//   - Until a registered range is deregistered, its Cache refers to the memory of the range, so
//     that the garbage collector does not free this memory.
//
// A Cache is not safe for concurrent use.
package regcache
