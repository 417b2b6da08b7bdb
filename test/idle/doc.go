// Package idle measures the CPU time of programs that only wait. The command below prints the CPU
// time of 10 s of waiting for each program.
//
//	go test ./test/idle -v -idle 10s
//
// Each test runs in the process of the test binary, one after another.
package idle
