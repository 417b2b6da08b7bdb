// Btlbench measures the transport between two processes, as fi_pingpong, ucx_perftest and the OSU
// benchmarks do for theirs, beside the bare fabric that the transport runs on.
//
//	btlbench pair                    both processes on this host, each on a core of its own
//	btlbench serve --listen :4711    one side, waits for clients
//	btlbench run HOST:4711           the other side, measures and reports
//	btlbench rate                    small messages per second between both, by messages in flight
//	btlbench report FILE...          one page of tables and plots of JSON reports
//	btlbench info                    providers, which one is the default and why
//	btlbench params                  every tunable of the transport
//
// The command line and its output are here; below it, arrows point down:
//
//	main      commands, flags, exit status         compare   rounds of whole systems, tables, plots
//	  |                                               |
//	measure   plan -> rounds -> report             systems   this program, UCX, Open MPI, libfabric,
//	  |                                                      iperf3 as processes that measure
//	session   two processes that agree
//	  |
//	layers    the hot loops, raw and btl
//	  |
//	plan      what can be asked for
//
// The two layers of a test take turns within its rounds, so that a ratio compares what the machine
// gave to both at nearly the same time.
//
// Standard output carries the report alone; everything else goes to standard error. Exit status: 0
// success, 1 failure, 2 usage, 130 and 143 after SIGINT and SIGTERM.
package main
