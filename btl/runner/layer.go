package runner

import "gobtl/btl"

// Layer is a protocol on top of a Runner, such as those of the packages call, conn and queue.
// Several layers can share a module, each with its own tag. All functions of a Layer except Attach
// run on the goroutine that drives the module, and must not block. Any function of a Layer can be
// nil.
type Layer struct {
	// Attach receives the Runner. Attach is called before the functions Event and Room of the Layer,
	// and before any message handler of the module.
	Attach func(r *Runner)
	// Event is called when an endpoint connects, closes or fails (see btl.Module.OnEndpoint).
	Event func(ep *btl.Endpoint, ev btl.Event, err error)
	// Room is called when an endpoint can send again after ErrAgain (see btl.Module.OnRoom).
	Room func(ep *btl.Endpoint)
}

func (r *Runner) attach(layers []Layer, onEvent func(*btl.Endpoint, btl.Event, error)) {
	rooms := 0
	for _, l := range layers {
		if l.Attach != nil {
			l.Attach(r)
		}
		if l.Room != nil {
			rooms++
		}
	}
	r.m.OnEndpoint(func(ep *btl.Endpoint, ev btl.Event, err error) {
		r.handshakes.ended(ep, err)
		if ev == btl.EventConnected {
			r.posts.know(ep)
		} else {
			r.posts.lost(ep)
		}
		for _, l := range layers {
			if l.Event != nil {
				l.Event(ep, ev, err)
			}
		}
		if onEvent != nil {
			onEvent(ep, ev, err)
		}
	})
	if rooms == 0 {
		return
	}
	r.m.OnRoom(func(ep *btl.Endpoint) {
		for _, l := range layers {
			if l.Room != nil {
				l.Room(ep)
			}
		}
	})
}
