// Package cli tests the built btlbench program in processes of its own, over libfabric's udp
// provider on the loopback interface.
//
//	testdata/*.txtar   command lines and what they print (rogpeppe/go-internal/testscript)
//	*_test.go          what needs signals, sockets or a look into the report
//
// Without libfabric the tests fail if CI is set, and are skipped with a message otherwise.
package cli
