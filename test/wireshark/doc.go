// Package wireshark tests the dissector of docs/wireshark with tshark.
//
//	vectors_test.go  every field against package frag on the protocol's vectors; the trees of each
//	                 kind against testdata/kinds.txt
//	example_test.go  the example exchange of docs/protocol.md, decoded, and as tshark lists it
//	capture_test.go  the same on traffic of btlbench, captured on the loopback interface; there also
//	                 what the dissector concludes from other packets, against a model in Go
//	broken_test.go   what is no packet: the dissector must agree with package frag
//
// Without tshark the tests fail if CI is set, and are skipped with a message otherwise. Capturing
// needs root or the right to run dumpcap.
package wireshark
