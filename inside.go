package gobtl

import (
	"fmt"
	"sync/atomic"
	"time"
)

// The type "inside" records which callback of a link is running, for warnings about callbacks that
// block. Only the goroutine that drives the link may call "enter" and "leave", but any goroutine
// may read the field "running". For a nil receiver, all methods of the type "inside" do nothing.
type inside struct {
	running atomic.Uint64 // number of the running callback << callbackBits | its kind; 0: none
	entered uint64        // number of the latest callback
	latest  int           // kind of the latest callback
}

// The kind of a call of a MessageHandler is the handler's tag, and the kind of a call of OnPeer is
// inOnPeer.
const (
	inOnPeer     = int(TagMax) + 1
	callbackBits = 8
)

// The method "enter" records that a callback begins.
func (i *inside) enter(kind int) {
	if i == nil {
		return
	}
	i.entered++
	i.latest = kind
	i.running.Store(i.entered<<callbackBits | uint64(kind))
}

// The method "leave" records that the callback has returned.
func (i *inside) leave() {
	if i != nil {
		i.running.Store(0)
	}
}

// callbackName returns the text that names a kind of callback in the log.
func callbackName(kind int) string {
	if kind == inOnPeer {
		return "OnPeer"
	}
	return fmt.Sprintf("MessageHandler of tag %d", kind)
}

// longPassOf is the default of runner.Config.LongPass.
const longPassOf = 100 * time.Millisecond

// longPassTime returns the duration of one call of Progress beyond which the Node writes a warning.
func (c *Config) longPassTime() time.Duration {
	if c.Runner.LongPass <= 0 {
		return longPassOf
	}
	return c.Runner.LongPass
}

// watchCallbacks checks at intervals of LongPass, until the link ends, whether a callback of the
// link blocks, and writes one line to the log for each callback that blocks. watchCallbacks writes
// no line about a callback that has possibly only waited for CPU time (see lostCPU).
func (l *Link) watchCallbacks() {
	every := l.node.cfg.longPassTime()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var seen, told uint64
	var since time.Time // when the callback was seen for the first time
	for {
		use := useOfCPU()
		l.uses.add(use)
		now := l.inside.running.Load()
		if now != seen {
			seen, since = now, use.at
		} else if now != 0 && now != told && !l.uses.lostCPU(since.Add(-every), use, every) {
			told = now
			l.node.cfg.Log.Warn("gobtl: a handler keeps the network waiting: it must not block", "handler",
				callbackName(int(now&(1<<callbackBits-1))), "longer_than", every,
				"link", l.Address())
		}
		select {
		case <-l.run.Done():
			return
		case <-ticker.C:
		}
	}
}

// longPass is called after a long call of Progress, and writes a line to the log that says whether
// handlers or other processes have probably caused the delay.
func (l *Link) longPass(took time.Duration) {
	cfg := &l.node.cfg
	if cfg.Log != nil {
		about := []any{"took", took, "link", l.Address()}
		if l.inside.entered > 0 {
			about = append(about, "latest_handler", callbackName(l.inside.latest))
		}
		use := useOfCPU()
		if l.uses.lostCPU(use.at.Add(-took), use, cfg.longPassTime()) {
			cfg.Log.Info("gobtl: the network waited while other processes used the CPU", about...)
		} else {
			cfg.Log.Warn("gobtl: a handler kept the network waiting: it must not block", about...)
		}
	}
	if cfg.Runner.OnLongPass != nil {
		cfg.Runner.OnLongPass(took)
	}
}
