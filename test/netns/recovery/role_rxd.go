//go:build linux

package recovery

import (
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	_ "gobtl/fabric/ofi" // registers the family
)

// The constants below are numbers of buffers of an rxdHost.
const rxdSends, rxdRecvs = 256, 512

// rxdSpins is the number of empty polls (about 50 us) after which the process yields the CPU.
const rxdSpins = 100

// rxdHost is a plain reliable endpoint of libfabric.
type rxdHost struct {
	sp   Spec
	s    *steering
	dom  fabric.Domain
	ep   fabric.Endpoint
	mem  fabric.Arena
	caps fabric.Caps
	free []fabric.Buf
	peer fabric.Addr
	// idle counts the polls without an event.
	idle int
	ledger
}

func openRxd(sp Spec, s *steering) (*rxdHost, error) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: sp.Provider, Node: sp.Node})
	if err != nil {
		return nil, err
	}
	h := &rxdHost{sp: sp, s: s}
	h.dom, err = fabric.Open(infos[0], fabric.DomainConfig{Buffers: rxdSends + rxdRecvs})
	if err != nil {
		return nil, err
	}
	h.ep, err = h.dom.OpenEndpoint(fabric.EndpointConfig{TxDepth: rxdSends, RxDepth: rxdRecvs})
	if err != nil {
		return nil, errors.Join(err, h.dom.Close())
	}
	h.mem, h.caps = h.dom.Arena(), h.ep.Caps()
	for b := range fabric.Buf(rxdSends) {
		h.free = append(h.free, b)
	}
	for b := range fabric.Buf(rxdRecvs) {
		if _, err := h.ep.Recv([]fabric.Buf{rxdSends + b}); err != nil {
			return nil, errors.Join(err, h.dom.Close())
		}
	}
	return h, nil
}

func rxdRole(sp Spec, s *steering) error {
	runtime.LockOSThread()
	h, err := openRxd(sp, s)
	if err != nil {
		return err
	}
	// The endpoint is not closed, because rxd may wait for a peer that has gone.
	switch sp.Role {
	case "serve":
		return h.serve()
	case "stream", "pingpong":
		return h.client()
	}
	return fmt.Errorf("no such role: %q", sp.Role)
}

// poll passes each received message to got, and posts its buffer again.
func (h *rxdHost) poll(got func(b []byte) error) error {
	var out [32]fabric.Completion
	n, err := h.ep.Poll(out[:])
	if h.idle++; n > 0 {
		h.idle = 0
	} else if h.idle > rxdSpins {
		// The process cannot sleep, because the timers of rxd run only during polls. Other
		// processes may want the CPU.
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
	for _, c := range out[:n] {
		switch {
		case c.Errno != 0:
			err = errors.Join(err, fmt.Errorf("completion with error %d", c.Errno))
		case c.Op == fabric.OpSend:
			h.free = append(h.free, c.Buf)
		default:
			err = errors.Join(err, got(h.mem.Bytes(c.Buf)[:c.Len]))
			_, e := h.ep.Recv([]fabric.Buf{c.Buf})
			err = errors.Join(err, e)
		}
	}
	return err
}

// send posts a message, and returns false if there is no room now.
func (h *rxdHost) send(sizeBytes int) (bool, error) {
	if len(h.free) == 0 {
		return false, nil
	}
	b := h.free[len(h.free)-1]
	_, err := h.ep.Post([]fabric.Send{{To: h.peer, Buf: b, Len: uint32(sizeBytes)}})
	if errors.Is(err, fabric.ErrAgain) {
		return false, nil
	}
	if err == nil && sizeBytes > h.caps.InjectBytes {
		h.free = h.free[:len(h.free)-1]
	}
	return err == nil, err
}

// serve receives messages, of which the first contains the client's name and is answered to confirm
// the connection.
func (h *rxdHost) serve() error {
	name := hex.EncodeToString(h.ep.Name())
	if err := h.s.say(message{Event: "name", Name: name}); err != nil {
		return err
	}
	first, owed := true, 0
	for !h.s.stopped.Load() {
		err := h.poll(func(b []byte) (err error) {
			if first {
				first = false
				h.peer, err = h.dom.Insert(b)
				owed++
				return err
			}
			if h.sp.Echo {
				owed++
			}
			h.add(h.sp.Tag, len(b))
			return nil
		})
		for owed > 0 && err == nil {
			var sent bool
			if sent, err = h.send(8); !sent {
				break
			}
			owed--
		}
		if err != nil {
			return err
		}
		if !h.sp.Echo {
			h.tick(clockNs())
		}
	}
	h.next = 0
	h.tick(clockNs())
	return h.s.say(message{Event: "report", Report: &Report{Ticks: h.ticks}})
}

func (h *rxdHost) client() error {
	name, err := hex.DecodeString(h.sp.Peer)
	if err != nil {
		return err
	}
	if h.peer, err = h.dom.Insert(name); err != nil {
		return err
	}
	got := 0
	poll := func() error { return h.poll(func([]byte) error { got++; return nil }) }
	mine := h.ep.Name()
	copy(h.mem.Bytes(h.free[len(h.free)-1]), mine)
	for sent := false; err == nil && got == 0 && !h.s.stopped.Load(); err = errors.Join(err, poll()) {
		if !sent {
			sent, err = h.send(len(mine))
		}
	}
	if err != nil {
		return err
	}
	if err := h.s.say(message{Event: "ready"}); err != nil {
		return err
	}
	for !h.s.begun.Load() && !h.s.stopped.Load() {
		if err := poll(); err != nil {
			return err
		}
	}
	play := func(until int64, r *Report) error {
		var took []int64
		for now := clockNs(); now < until && !h.s.stopped.Load(); {
			start, before, sent := now, got, false
			for now < until+lastEcho && !h.s.stopped.Load() {
				if !sent {
					if sent, err = h.send(h.sp.SizeBytes); err != nil {
						return err
					}
				}
				if err := poll(); err != nil {
					return err
				}
				now = clockNs()
				if h.sp.Role == "stream" && sent || got > before {
					break
				}
				if h.sp.Role == "stream" && now >= until {
					break
				}
			}
			took = append(took, now-start)
		}
		if r != nil && h.sp.Role == "pingpong" {
			r.Messages, r.Latency = len(took), latencyOf(took)
		}
		return nil
	}
	if err := play(clockNs()+int64(h.sp.Warm), nil); err != nil {
		return err
	}
	r := &Report{Start: clockNs()}
	if err := play(r.Start+int64(h.sp.Each), r); err != nil {
		return err
	}
	r.End = clockNs()
	if err := h.s.say(message{Event: "report", Report: r}); err != nil {
		return err
	}
	for !h.s.stopped.Load() {
		if err := poll(); err != nil {
			return nil
		}
	}
	return nil
}
