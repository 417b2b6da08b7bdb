// Package inet is what the providers on UDP sockets share: endpoint names, the notation of
// addresses, the addresses of this host, and how many datagrams a receive buffer holds. Providers
// that use it understand each other's names.
//
//	+---------+--------------+-------------------+
//	| 4 or 6  | port         | IP address        |   a name
//	+---------+--------------+-------------------+
//	 1 byte    2, big-endian  4 or 16
//
// Its functions keep nothing: any goroutine may call them.
package inet
