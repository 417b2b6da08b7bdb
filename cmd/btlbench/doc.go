// Btlbench measures the transport and the bare fabric below it between two processes, like
// fi_pingpong, ucx_perftest and the OSU benchmarks.
//
//	btlbench pair                    both processes on this host, each on a core of its own
//	btlbench serve --listen :4711    one side, waits for clients
//	btlbench run HOST:4711           the other side, measures and reports
//	btlbench rate                    small messages per second between both, by messages in flight
//	btlbench report FILE...          one page of tables and plots of JSON reports
//	btlbench info                    providers, which one is the default and why
//	btlbench params                  every tunable of the transport
//
// This package contains the command line and its output, and the arrows of the diagram point to
// lower layers.
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
// The two layers of a test are measured alternately within its rounds, so that their ratio does not
// depend on the speed of the machine.
//
// The report is written to standard output, and all other text to standard error. The exit status
// is 0 for success, 1 for a failure, 2 for wrong usage, and 130 and 143 after SIGINT and SIGTERM.
package main
