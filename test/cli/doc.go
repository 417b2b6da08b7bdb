// Package cli tests the btlbench program as its users meet it: the built binary, in processes of
// its own, over libfabric's udp provider on the loopback interface.
//
//	testdata/*.txtar   command lines and what they print (rogpeppe/go-internal/testscript)
//	*_test.go          what needs signals, sockets or a look into the report
//
// Nothing here is skipped silently: without libfabric the tests fail where CI is set, and say so
// elsewhere.
package cli
