// Package conformance runs the scenarios of libfabric's fabtests that apply to a byte transfer
// layer, on each real provider and on the simulator. README.md lists each scenario with its program
// of fabtests and its assertions.
//
//	scenarios_test.go   the table of scenarios, and TestConformance, which runs each on each network
//	networks_test.go    the networks: real providers on the real clock, sim_test.go the simulator
//	lab_test.go         the modules of one scenario, and how time passes for them
//	stream_test.go      verified messages from one module to another
//	exchange_test.go    exchange, pingpong, windows, floods, refused messages
//	queues_test.go      queues that are full, buffers that are used again at once
//	ranks_test.go       many modules: all to all, one to all, all to one, a ring
//	peers_test.go       peers that come, go, die and come again
//	put_test.go         puts
//	runner_test.go      what needs threads: wait modes, signals
//
// Each scenario is written against package lab. Networks with their own clock (the simulator) run
// in virtual time, and all other networks in real time with all modules on the test's goroutine,
// except in runner_test.go.
package conformance
