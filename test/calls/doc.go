// Command calls measures requests and answers between two processes of this host, by btl/call over
// a runner.Runner and by the usual alternatives of Go programs, net/rpc and gRPC over TCP. It runs
// all systems in turns, each time with processes of their own, and shows medians over the rounds:
//
//	parent --- serve SYSTEM ------> address, then it serves until its standard input ends
//	       --- call SYSTEM ADDR --> a result, in JSON
//
// The command itself is one goroutine. It measures the callers.
package main
