// Btlbench measures the transport between two processes, as fi_pingpong, ucx_perftest and the OSU
// benchmarks do for theirs, beside the bare fabric that the transport runs on.
//
//	btlbench pair                    both processes on this host, each on a core of its own
//	btlbench serve --listen :4711    one side, waits for clients
//	btlbench run HOST:4711           the other side, measures and reports
//	btlbench rate                    small messages per second between both, by messages in flight
//	btlbench info                    providers, which one is the default and why
//	btlbench params                  every tunable of the transport
//
// The two sides meet on a TCP connection (control*.go) which carries the addresses of their
// endpoints, the parameters of every round and its results, and never a message that is measured.
// Each side has one engine (engine.go): a goroutine locked to its OS thread, which owns the fabric
// and runs the hot loops.
//
//	run  -- hello -------------------> serve     versions, who is there
//	     -- setup (config, names) ---> opens     answer: names, what the provider granted
//	     -- round -------------------> arms      answer: ready
//	     == messages that are measured ==        fabric, in the layer raw or btl
//	     -- stop --------------------> collects  answer: counts, CPU time
//	     -- bye ---------------------> next client
//
// The two layers of a test take turns within its rounds, so that a ratio compares what the machine
// gave to both at nearly the same time.
//
// Standard output carries the report alone; everything else goes to standard error. Exit status: 0
// success, 1 failure, 2 usage, 130 and 143 after SIGINT and SIGTERM.
package main
