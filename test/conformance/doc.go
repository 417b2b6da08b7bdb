// Package conformance runs the scenarios of libfabric's fabtests that apply to a byte transfer
// layer on modules of this project: on every real provider there is, and on the simulator.
// README.md says which scenario follows which program of fabtests, and what it asserts.
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
// A scenario is written once, against lab. Networks with a clock of their own (the simulator) run
// in virtual time, the others in real time with all modules on the test's goroutine; only the
// scenarios of runner_test.go need real networks.
package conformance
