// Package park makes a goroutine sleep in Go's own poller until an epoll descriptor is readable.
// Any other goroutine can wake the sleeping goroutine by a Bell.
//
// A goroutine that sleeps in a system call keeps its P (a scheduler slot of Go) for up to 10 ms,
// and keeps Go's monitor thread (sysmon) awake for that time. At first the monitor thread wakes
// up every 20 us, which costs more CPU time than a single call of the transport. A parked
// goroutine releases its P at once, and the monitor thread can sleep.
package park
