// Package host tests several processes of one host that communicate through shared memory. The test
// binary starts itself in further processes.
//
// Within a process each test uses one goroutine, and each rank is a goroutine that owns a module.
package host
