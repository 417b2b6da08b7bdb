//go:build linux

package agent

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/fabric/impair"
	"gobtl/vnic"
)

// The type peers holds the addresses of the other hosts.
type peers struct {
	lids []vnic.LIDEntry
}

// endpoint is a fabric endpoint that has its own domain, so that one thread owns both. The endpoint
// holds the addresses of the other hosts.
type endpoint struct {
	dom   fabric.Domain
	ep    fabric.Endpoint
	caps  fabric.Caps
	arena fabric.Arena
	seen  *peers // the peers value from which addrs was made
	addrs []fabric.Addr
}

// openDomain opens a domain, which injects the given faults into received packets. If the argument
// faults of openDomain is nil, no faults are injected.
func openDomain(
	info fabric.Info, cfg fabric.DomainConfig, faults *impair.Faults,
) (fabric.Domain, error) {
	if faults == nil {
		return fabric.Open(info, cfg)
	}
	return impair.Open(info, cfg, *faults)
}

// anyPort returns a network without the ports of its Node. The Node's ports are for the module;
// all other endpoints of the process have free ports.
func anyPort(info fabric.Info) fabric.Info {
	if fabric.OverSockets(info.Provider) && info.Src != "" {
		info.Node = info.Src
	}
	return info
}

// The function at adds the local address to an error of a network. The function at returns nil for
// a nil error.
func at(info fabric.Info, err error) error {
	if err == nil {
		return nil
	}
	where := info.Node
	if where == "" {
		where = info.Src
	}
	return fmt.Errorf("the network at %s: %w", where, err)
}

func openEndpoint(
	info fabric.Info, buffers, bytes int, faults *impair.Faults,
) (*endpoint, error) {
	info = anyPort(info)
	dom, err := openDomain(info, fabric.DomainConfig{Buffers: buffers, BufferBytes: bytes}, faults)
	if err != nil {
		return nil, at(info, err)
	}
	ep, err := dom.OpenEndpoint(fabric.EndpointConfig{RxDepth: buffers, Source: true})
	if err != nil {
		_ = dom.Close()
		return nil, at(info, err)
	}
	return &endpoint{dom: dom, ep: ep, caps: ep.Caps(), arena: dom.Arena()}, nil
}

// insert replaces the known addresses by the addresses with the names in p. An address that was
// known before stays valid without a gap. A name that the fabric refuses is skipped.
func (e *endpoint) insert(
	p *peers, names func(e *vnic.LIDEntry, add func(name []byte)),
) map[int][]fabric.Addr {
	old := e.addrs
	e.addrs, e.seen = nil, p
	byEntry := make(map[int][]fabric.Addr)
	for i := range p.lids {
		names(&p.lids[i], func(name []byte) {
			if a, err := e.dom.Insert(name); err == nil {
				e.addrs = append(e.addrs, a)
				byEntry[i] = append(byEntry[i], a)
			}
		})
	}
	for _, a := range old {
		_ = e.dom.Remove(a) // a was inserted
	}
	return byEntry
}

// The type bell wakes a thread that sleeps on file descriptors.
type bell struct{ fd int }

func newBell() (*bell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return &bell{fd: fd}, nil
}

func (b *bell) ring() {
	one := [8]byte{1}
	_, _ = unix.Write(b.fd, one[:]) // a full counter also wakes the thread
}

func (b *bell) hush() {
	var count [8]byte
	_, _ = unix.Read(b.fd, count[:])
}

// post sends a batch of packets, and calls lost for each packet that the fabric refuses. If the
// send queue is full, post does not wait, and returns the number of packets that are done.
func (e *endpoint) post(sends []fabric.Send, lost func(i int, err error)) (done int) {
	for done < len(sends) {
		n, err := e.ep.Post(sends[done:])
		done += n
		switch {
		case done == len(sends) || errors.Is(err, fabric.ErrAgain):
			return done
		case err != nil:
			lost(done, err)
			done++
		}
	}
	return done
}

// The method offer sends one packet, and returns an error if it cannot send the packet. If the send
// queue is full, the method offer does not wait, so that the control thread may call it.
func (e *endpoint) offer(one fabric.Send) error {
	if n, err := e.ep.Post([]fabric.Send{one}); n == 0 {
		return err
	}
	return nil
}

func (b *bell) close() { unix.Close(b.fd) }
