package call

import (
	"context"
	"reflect"
	"runtime"
	"slices"

	"gobtl/btl"
)

// handlerEntries contains the entry points of the two functions through which all handlers are
// called on new goroutines. InHandler searches the caller's stack for the functions in
// handlerEntries. The functions in handlerEntries must not be inlined, because runtime.Callers
// would not find their entry points.
var handlerEntries = [...]uintptr{
	reflect.ValueOf(handle).Pointer(),
	reflect.ValueOf(handleStream).Pointer(),
}

//go:noinline
func handle(ctx context.Context, h Handler, peer *btl.Endpoint, request []byte) ([]byte, error) {
	return h(ctx, peer, request)
}

//go:noinline
func handleStream(s *stream, h StreamHandler, peer *btl.Endpoint) error {
	return h(s.ctx, peer, &streamReader{s: s}, streamWriter{s})
}

// InHandler reports whether the caller runs inside a Handler or a StreamHandler of this Node, so
// that Close would wait for its own caller. While a handler of this Node runs, InHandler returns
// true even inside a handler of another Node. InHandler is safe for concurrent use.
func (n *Node) InHandler() bool {
	n.runMu.Lock()
	running := n.load.running
	n.runMu.Unlock()
	if running == 0 {
		return false
	}
	const framesMax = 64 // frames inspected at once
	var pcs [framesMax]uintptr
	for skip := 2; ; skip += framesMax {
		count := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:count] {
			f := runtime.FuncForPC(pc - 1)
			if f != nil && slices.Contains(handlerEntries[:], f.Entry()) {
				return true
			}
		}
		if count < framesMax {
			return false
		}
	}
}
