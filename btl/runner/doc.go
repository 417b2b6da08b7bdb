// Package runner drives a module of package btl (calls its Progress), so that any goroutine can use
// the module. Each call of a Runner has a context, and returns when its operation has ended.
//
// Three things to know:
//
//   - The goroutine that holds a lock, called the token, owns the module. If the token is free, a
//     call locks it, performs the call's operation, and drives the module until the operation has
//     ended.
//
//   - Message handlers and callbacks run on the goroutine that drives the module. In a callback,
//     those methods of the Runner that would wait return ErrInHandler. A callback that panics or
//     calls runtime.Goexit (as t.FailNow does) ends the process, and the panic cannot be recovered.
//
//   - A call with a nil context returns btl.ErrContext immediately. If the context is cancelled
//     while the transport might still use the caller's memory, the error is an InUse. The channel
//     of the method InUse.Free is closed when the transport no longer uses the memory.
//
// The files are:
//
//	runner.go      Runner, New, Close, from the start to the end
//	layer.go       the functions that a protocol on a Runner provides
//	api.go         Do, Connect, Send, Put, Flush, Await, Start
//	remote.go      PutNotice, Get, Atomic
//	post.go        SendBuffered, Post, messages for which no goroutine waits
//	call.go        the request of one goroutine, and its states
//	handshakes.go  calls that wait for the handshake of an endpoint
//	refused.go     calls for which there was no resource yet
//	turn.go        the token, and the goroutines that wait for the token
//	callback.go    whether a goroutine runs inside a callback, and the panics of callbacks
//	wake.go        a call drives, sleeps, hands the token over
//	watch.go       the watcher drives while no goroutine calls
//	watcher.go     the watcher waits while calls drive
//	nap_linux.go   a sleep of less than a millisecond
//	waitmode.go    the ways in which a loop waits
//
// A Runner uses only the public API of package btl, and btl.Hooks.
package runner
