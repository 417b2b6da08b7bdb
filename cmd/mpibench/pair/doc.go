// Package pair measures the packages btl/call, btl/conn and stream between two processes, as
// package bench measures package mpi.
//
//	process that serves      name of the server, one line --> process that measures
//	    echoes, counts <--------------- messages ------------ lines of JSON: bench.Result
//
// The tests have the same loops as the C program of package compare. "latency" is half of a round
// trip, and "bw" is the rate of messages with up to Window messages in flight. A stream has only
// one direction: "bw" is the rate of the reliable mode, and "datagrams" the rate of messages that
// arrive in the unreliable mode.
//
// Each function blocks until its measurement has ended. The package has no shared state.
package pair
