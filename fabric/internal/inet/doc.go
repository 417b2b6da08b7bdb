// Package inet contains the code that all providers on UDP sockets share, which handles endpoint
// names, textual addresses, addresses of this host, and the capacity of receive buffers. Providers
// that use package inet can connect to each other.
//
//	+---------+--------------+-------------------+
//	| 4 or 6  | port         | IP address        |   a name
//	+---------+--------------+-------------------+
//	 1 byte    2, big-endian  4 or 16
//
// The functions have no state, and any goroutine may call them.
package inet
