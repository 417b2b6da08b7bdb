package conformance

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
)

// packet is a datagram as it was posted, and the endpoint name that it went to.
type packet struct{ to, data []byte }

// tap is a Domain that keeps a copy of what is sent through it.
type tap struct {
	fabric.Domain
	names   map[fabric.Addr][]byte
	regions map[fabric.Region][]byte
	packets []packet
	open    bool
}

func newTap(d fabric.Domain) *tap {
	return &tap{
		Domain: d, names: make(map[fabric.Addr][]byte), regions: make(map[fabric.Region][]byte),
		open: true,
	}
}

// Insert notes which name an address stands for.
func (d *tap) Insert(name []byte) (fabric.Addr, error) {
	a, err := d.Domain.Insert(name)
	if err == nil {
		d.names[a] = bytes.Clone(name)
	}
	return a, err
}

// RegisterRegion notes which memory a region is.
func (d *tap) RegisterRegion(mem []byte) (fabric.Region, error) {
	r, err := d.Domain.RegisterRegion(mem)
	if err == nil {
		d.regions[r] = mem
	}
	return r, err
}

// OpenEndpoint opens an endpoint that is listened to.
func (d *tap) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	e, err := d.Domain.OpenEndpoint(cfg)
	if err != nil {
		return nil, err
	}
	return &tapEndpoint{Endpoint: e, dom: d}, nil
}

type tapEndpoint struct {
	fabric.Endpoint
	dom *tap
}

// Post copies what is posted.
func (e *tapEndpoint) Post(sends []fabric.Send) (int, error) {
	n, err := e.Endpoint.Post(sends)
	if e.dom.open {
		arena := e.dom.Arena()
		for i := range sends[:n] {
			s := &sends[i]
			data := bytes.Clone(arena.Bytes(s.Buf)[:s.Len])
			if s.Region != 0 {
				data = append(data, e.dom.regions[s.Region][s.RegionOff:][:s.RegionLen]...)
			}
			e.dom.packets = append(e.dom.packets, packet{to: e.dom.names[s.To], data: data})
		}
	}
	return n, err
}

// replayer sends packets that others have sent before, from an address of its own.
type replayer struct {
	t   *testing.T
	l   *lab
	dom fabric.Domain
	ep  fabric.Endpoint
}

func newReplayer(l *lab) *replayer {
	l.t.Helper()
	dom, err := l.net.station(l.t).open(btl.Config{})
	if err != nil {
		l.t.Fatal(err)
	}
	ep, err := dom.OpenEndpoint(fabric.EndpointConfig{})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		if err := dom.Close(); err != nil {
			l.t.Error(err)
		}
	})
	return &replayer{t: l.t, l: l, dom: dom, ep: ep}
}

// send sends one packet and lets a little time pass.
func (r *replayer) send(p packet) {
	r.t.Helper()
	to, err := r.dom.Insert(p.to)
	if err != nil {
		r.t.Fatal(err)
	}
	arena := r.dom.Arena()
	copy(arena.Bytes(0), p.data)
	s := []fabric.Send{{To: to, Buf: 0, Len: uint32(len(p.data))}}
	for {
		_, err = r.ep.Post(s)
		if !errors.Is(err, fabric.ErrAgain) {
			break
		}
		r.l.run(10 * time.Microsecond)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	if len(p.data) > r.ep.Caps().InjectBytes { // then the buffer is free when it completes
		var out [1]fabric.Completion
		r.l.until("a replayed packet has left", func() bool {
			n, err := r.ep.Poll(out[:])
			if err != nil {
				r.t.Fatal(err)
			}
			return n == 1
		})
	}
	r.l.run(10 * time.Microsecond)
}
