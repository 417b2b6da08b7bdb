// Package park has a goroutine sleep until an epoll descriptor is readable, in Go's own poller; any
// other goroutine wakes it by a Bell.
//
// A goroutine that sleeps in a system call would keep its processor (Go's P) for up to 10 ms, and
// Go's monitor thread awake as long: it looks around every 20 us at first, which costs more than
// all else about a call that comes alone. One that is parked gives both up at once.
package park
