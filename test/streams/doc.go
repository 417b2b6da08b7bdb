// Command streams measures byte streams between two processes, with package gobtl, TCP, quic-go and
// kcp-go. Each round measures the systems one after the other, each time with new processes, and
// the output shows medians over the rounds:
//
//	parent --- serve SYSTEM ---------> address, then it serves until its standard input ends
//	       --- call SYSTEM ADDRESS --> a result, in JSON
//
// A path between the processes is the loopback interface, a cable of MTU 1500 between two network
// namespaces, such a cable with packet loss, or a slow long line, which the parent simulates:
//
//	namespace a: TUN device --> queue (rate, loss, delay) --> TUN device :namespace b
//	                        <-- queue                     <--
//
// The first byte of a stream selects what the server does with the stream. The file load.go
// contains the loads.
package main
