// Package runner drives a module of package btl for ordinary programs: any goroutine may call, with
// a context, and a call returns when its operation has ended.
//
// Three things to know:
//
//   - There is one owner at a time. The goroutine that holds the token owns the module; a call that
//     finds the token free takes it, does its work and drives. See the diagram at Runner.
//   - The fabric's handlers and all other callbacks run on the goroutine that drives. They must not
//     wait for the Runner: ErrInHandler.
//   - A call with a nil context returns btl.ErrContext at once. If memory may still be in use when
//     the context has ended, the error is an InUse, which tells when the memory is free.
//
// Where to read:
//
//	runner.go     Runner, New, Close: from the start to the end
//	layer.go      what several protocols on one Runner are told
//	api.go        Do, Connect, Send, Put, Flush, Await, Start
//	remote.go     PutNotice, Get, Atomic
//	post.go       SendBuffered: messages that nobody waits for
//	call.go       what one goroutine wants, and its states
//	refused.go    calls for which there was no resource yet
//	wake.go       a call drives, sleeps, is woken, hands the token over
//	watch.go      the watcher drives while nobody calls
//	nap_linux.go  a sleep of less than a millisecond
//	waitmode.go   how a loop waits, for users
//
// A Runner uses the public API of package btl, and btl.Hooks.
package runner
