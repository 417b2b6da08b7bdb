// Command calls measures requests and replies between two processes of this host, with btl/call
// over a runner.Runner, with net/rpc, and with gRPC over TCP. Each round measures the systems one
// after the other, each time with new processes, and the output shows medians over the rounds:
//
//	parent --- serve SYSTEM ------> address, then it serves until its standard input ends
//	       --- call SYSTEM ADDR --> a result, in JSON
//
// The command uses one goroutine, and measures at the callers.
package main
