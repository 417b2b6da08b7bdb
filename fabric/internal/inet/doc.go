// Package inet contains code that the providers on UDP sockets share. Package inet handles endpoint
// names, textual addresses, addresses of this host, and the capacity of receive buffers. Endpoints
// of two different providers can communicate if both providers use package inet.
//
//	+=========+==============+===================+
//	| 4 or 6  | port         | IP address        |   a name
//	+=========+==============+===================+
//	 1 byte    2, big-endian  4 or 16
//
// The functions of package inet have no state, and are safe for concurrent use.
package inet
