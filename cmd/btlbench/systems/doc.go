// Package systems runs the systems of a comparison, which are this program and other transports
// between two processes. Each system is a set of processes that measure and print their results.
//
//	system.go    what a system is, the points at which it is measured, and the list of all
//	gobtl.go     the transport and the bare fabric, by this program's own "pair"
//	pingpong.go  libfabric's fi_pingpong
//	ucx.go       UCX's ucx_perftest
//	mpi.go       Open MPI, by the small program in mpi/
//	iperf.go     iperf3
//	child.go     processes: pinned, bounded in time, none left behind
//
// A result is the value of a system at a point, which is a workload, a message size and a window.
//
//	latency  half the mean round trip of a ping-pong, in us
//	stream   one direction, at most a window of messages on the way, in MB/s
//	rate     8-byte messages: a window of them, then one answer, then the next window; messages/s
//
// One goroutine measures one system at a time.
package systems
