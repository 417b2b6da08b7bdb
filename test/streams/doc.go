// Command streams measures streams of bytes between two processes: those of package gobtl, and what
// else a Go program would take: TCP, quic-go and kcp-go. It runs all systems in turns, each time
// with processes of their own, and shows medians over the rounds:
//
//	parent --- serve SYSTEM ---------> address, then it serves until its standard input ends
//	       --- call SYSTEM ADDRESS --> a result, in JSON
//
// A path is what is between the processes: the loopback interface, a cable of MTU 1500 between two
// network namespaces, that cable with a loss, or a slow long line, which the parent plays:
//
//	namespace a: TUN device --> queue (rate, loss, delay) --> TUN device :namespace b
//	                        <-- queue                     <--
//
// The first byte of a stream says what the server does with it; load.go has the loads.
package main
