// Package park makes a goroutine sleep in the network poller of Go's runtime until an epoll
// descriptor is readable. Any goroutine can wake the sleeping goroutine by a Bell.
//
// A goroutine that sleeps in a system call keeps its P (the right to run Go code) for up to 10 ms,
// and keeps Go's monitor thread (sysmon) awake for these 10 ms. An awake monitor thread at first
// runs every 20 us, which costs more CPU time than a call of the transport. A goroutine that waits
// in the network poller releases its P at once, so that the monitor thread can sleep.
package park
