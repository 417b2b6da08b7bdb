package btl

import (
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/sim"
)

// moody counts the posts of its endpoints, and refuses them with err, while it is set.
type moody struct {
	fabric.Domain
	err   error
	last  fabric.Buf // that was to be posted
	posts []int      // the sends of each post
}

type moodyEndpoint struct {
	fabric.Endpoint
	d *moody
}

func (d *moody) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	ep, err := d.Domain.OpenEndpoint(cfg)
	return &moodyEndpoint{ep, d}, err
}

func (e *moodyEndpoint) Post(sends []fabric.Send) (int, error) {
	e.d.last = sends[0].Buf
	e.d.posts = append(e.d.posts, len(sends))
	if e.d.err != nil {
		return 0, e.d.err
	}
	return e.Endpoint.Post(sends)
}

// A message over a reliable link leaves at once, in no send buffer; if the fabric has no room for
// it, it leaves with the next pass; if the fabric cannot carry it, the connection ends.
func TestExpress(t *testing.T) {
	d := new(moody)
	r := newRelied(t, sim.Config{Seed: 1}, relyConfig())
	a := r.open("z", relyConfig(), func(dom fabric.Domain, _ int) fabric.Domain {
		d.Domain = dom
		return d
	})
	b := r.mods[0]
	var got []byte
	if err := b.Handle(1, func(_ *Endpoint, _ Tag, p []byte) { got = append(got, p...) }); err != nil {
		t.Fatal(err)
	}
	ep := r.connect(1, 0)
	send := func(what byte) {
		t.Helper()
		if err := ep.SendImmediate(a.Now(), 1, []byte{what}); err != nil {
			t.Fatal(err)
		}
	}
	send('1') // after which something is not confirmed
	r.run(time.Millisecond)
	if send('2'); int(d.last) < a.cfg.SendBuffers ||
		string(a.all.Port.Arena.Bytes(d.last)[32:33]) != "2" {
		t.Errorf("a message leaves in buffer %d", d.last)
	}
	flushed := errNotEnded
	ep.Flush(a.Now(), func(err error) { flushed = err })
	if r.run(time.Millisecond); flushed != nil || flying(ep) != 0 {
		t.Errorf("flushed: %v, %d packets not confirmed", flushed, flying(ep))
	}
	send('-')
	r.run(time.Millisecond)
	d.err = fabric.ErrAgain
	if send('3'); len(a.all.Port.Command.Batch) != 1 {
		t.Errorf("%d packets wait for the fabric", len(a.all.Port.Command.Batch))
	}
	d.err = nil
	r.run(time.Millisecond)
	if string(got) != "12-3" {
		t.Errorf("got %q", got)
	}
	d.err = fabric.ErrNotSupported
	send('4')
	d.err = nil
	r.run(time.Millisecond)
	if ep.Err() == nil || counter(a, CntPostErrors) != 1 {
		t.Errorf("a packet cannot be carried: %v, %d errors", ep.Err(), counter(a, CntPostErrors))
	}
	r.run(time.Second)
	if string(got) != "12-3" {
		t.Errorf("got %q", got)
	}
	for _, m := range r.mods {
		if err := m.CheckIdle(); err != nil {
			t.Error(err)
		}
	}
}
