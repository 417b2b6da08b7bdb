package runner

import (
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
)

// callbackEntries contains the entry points of the functions through which all callbacks are
// called. The method callbacks.onStack searches the caller's stack for the functions in
// callbackEntries. The functions in callbackEntries must not be inlined, because runtime.Callers
// would not find their entry points.
var callbackEntries = [...]uintptr{
	reflect.ValueOf((*Runner).pass).Pointer(),
	reflect.ValueOf((*Runner).begin).Pointer(),
	reflect.ValueOf((*Runner).shutdown).Pointer(),
}

// The type "callbacks" tells whether a goroutine runs inside a callback of a Runner, where waiting
// would be a deadlock.
type callbacks struct {
	inside atomic.Bool // the goroutine that owns the module may be in a callback
}

// A goroutine that owns the module calls the method "enter" before it calls functions that may call
// callbacks, and afterwards the method "leave" with the result of the method "enter".
func (b *callbacks) enter() (was bool) { return b.inside.Swap(true) }

func (b *callbacks) leave(was bool) { b.inside.Store(was) }

// onStack reports whether the caller runs inside a callback. If no goroutine is inside a callback,
// onStack does not search the stack.
func (b *callbacks) onStack() bool {
	if !b.inside.Load() {
		return false
	}
	const framesMax = 64 // frames inspected at once
	var pcs [framesMax]uintptr
	for skip := 2; ; skip += framesMax {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			if f := runtime.FuncForPC(pc - 1); f != nil && slices.Contains(callbackEntries[:], f.Entry()) {
				return true
			}
		}
		if n < framesMax {
			return false
		}
	}
}

// Each function that calls callbacks defers mustReturn, and sets *returned when the callbacks have
// returned. If a callback has panicked or has called runtime.Goexit instead, mustReturn ends the
// process with the text and the stack of the panic.
//
// A callback usually runs on a goroutine of the program that waits in a method of the Runner. If
// mustReturn did not end the process, the program could recover the panic of a callback (as
// net/http does for its handlers), but the token would stay locked, and nothing would be received
// or acknowledged any more. It would not help to unlock the token, because a module cannot be used
// after a panic or a runtime.Goexit has ended its Progress in the middle.
//
// mustReturn raises the panic on a goroutine without a caller, where it cannot be recovered, and
// never returns to the program.
func mustReturn(returned *bool) {
	if *returned {
		return
	}
	what := "called runtime.Goexit, as t.FailNow does"
	if why := recover(); why != nil {
		what = fmt.Sprintf("panicked: %v", why)
	}
	stack := debug.Stack()
	go func() {
		panic("runner: a callback, or the module, has " + what + "\n\nThis ends the process. " +
			"The stack of the callback:\n\n" + string(stack))
	}()
	select {}
}
