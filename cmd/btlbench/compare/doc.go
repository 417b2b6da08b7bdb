// Package compare measures the transport beside its peers in one run: the same figures, on the same
// two CPUs, in turns, so that what the machine is doing meanwhile hits all of them alike.
//
//	compare.go   Config and Run: the order of the measurements
//	system.go    what a system is, and the list of them
//	gobtl.go     the transport and the bare fabric, by this program's own "pair"
//	pingpong.go  libfabric's fi_pingpong
//	ucx.go       UCX's ucx_perftest
//	mpi.go       Open MPI, by the small program in mpi/
//	iperf.go     iperf3
//	child.go     processes: pinned, bounded in time, none left behind
//	report.go    the report, JSON and CSV
//	table.go     tables for people
//	plot.go      plots (SVG)
//	docs.go      the part of a document that a run writes
//
// A figure is a system's value at a point: a workload, a message size and a window.
//
//	latency  half the mean round trip of a ping-pong, in us
//	stream   one direction, at most a window of messages on the way, in MB/s
//	rate     8-byte messages: a window of them, then one answer, then the next window; messages/s
//
// A system is measured once per round at each point that it can do; the report has every round's
// value. The package writes nothing to standard output or error.
package compare
