// Package host is for tests of many processes on one host that talk through shared memory. What is
// in it runs in processes of their own: the test binary starts itself again.
//
// The tests of one process each start and end on one goroutine; a rank is a goroutine that owns a
// module.
package host
