package fabrictest

import (
	"bytes"
	"errors"
	"testing"

	"gobtl/fabric"
)

// testSourceNames checks that a Sourcer endpoint reports the senders of datagrams.
func testSourceNames(t *testing.T, f *Fixture) {
	rx := newPort(t, f)
	sourcer, ok := rx.ep.(fabric.Sourcer)
	if !ok {
		return // permitted: Sourcer is optional
	}
	senders := []*port{newPort(t, f), newPort(t, f), newPort(t, f)}
	senders = append(senders, senders[0].open(f.Endpoint)) // in a domain that has another endpoint
	const rounds = 8
	rx.stock(rounds * len(senders))
	rx.sourcer = sourcer
	var got []datagram
	waiting := 0
	for i := range rounds * len(senders) {
		tx := senders[i%len(senders)]
		tx.send(tx.insert(rx), []byte{byte(i / len(senders)), byte(i % len(senders))})
		if waiting++; waiting == rx.caps.RecvCapacity || i+1 == rounds*len(senders) {
			got = append(got, rx.collect(waiting)...)
			waiting = 0
		}
	}
	if len(rx.sources) != len(got) {
		t.Fatalf("%d datagrams, %d sources", len(got), len(rx.sources))
	}
	for k, d := range got {
		want := senders[d.data[1]].ep.Name()
		if source := rx.sources[k]; len(source) != 0 && !bytes.Equal(source, want) {
			t.Fatalf("datagram %d of sender %d: from %x, that one is %x", d.data[0], d.data[1], source, want)
		}
		if !bytes.Equal(rx.sources[k], rx.sources[0]) && len(rx.sources[k]) == 0 {
			t.Errorf("the source of datagram %d of sender %d is not known, that of others is", d.data[0],
				d.data[1])
		}
	}
	if len(rx.sources[0]) == 0 {
		return // permitted: a Sourcer may never know the source
	}
	back, err := rx.dom.Insert(rx.sources[0])
	if err != nil {
		t.Fatalf("Insert of a source: %v", err)
	}
	first := senders[got[0].data[1]]
	first.stock(1)
	rx.send(back, []byte("back"))
	first.expect([]byte("back"))
	rx.stock(1)
	first.send(first.insert(rx), []byte("once more"))
	rx.sourcer = suffixed{sourcer, t}
	rx.collect(1)
}

type suffixed struct {
	fabric.Sourcer
	t *testing.T
}

func (s suffixed) AppendSource(_ []byte, c *fabric.Completion) []byte {
	const before = "before"
	got := s.Sourcer.AppendSource([]byte(before), c)
	if !bytes.HasPrefix(got, []byte(before)) || len(got) > len(before)+fabric.MaxNameBytes {
		s.t.Errorf("appended to %q: %q", before, got)
	}
	return got
}

// testAddresses checks that ParseAddress of an Addresser accepts the texts that FormatName makes
// from the names of endpoints.
func testAddresses(t *testing.T, f *Fixture) {
	a, b := newPort(t, f), newPort(t, f)
	dom, ok := a.dom.(fabric.Addresser)
	if !ok {
		return // permitted: Addresser is optional
	}
	for _, text := range []string{"", ",", "nowhere", "nowhere:x", ":", "1.2.3.4:70000", "\x00"} {
		if _, _, err := dom.ParseAddress(text); !errors.Is(err, fabric.ErrBadName) {
			t.Errorf("ParseAddress(%q): %v, want ErrBadName", text, err)
		}
	}
	for _, p := range []*port{a, b} {
		name := p.ep.Name()
		text := dom.FormatName(name)
		first, second, err := dom.ParseAddress(text)
		if err != nil || !bytes.Equal(first, name) {
			t.Fatalf("%x is written as %q and read as %x, %v", name, text, first, err)
		}
		if _, err := a.dom.Insert(second); err != nil || bytes.Equal(first, second) {
			t.Errorf("the second endpoint at %q: %x, %v", text, second, err)
		}
		if host := dom.Host(name); !bytes.Contains(name, host) ||
			!bytes.Equal(host, dom.Host(second)) {
			t.Errorf("host of %x: %x, of %x: %x", name, host, second, dom.Host(second))
		}
		if dom.FormatName(name[:len(name)-1]) == text {
			t.Errorf("half a name is written like the whole: %q", text)
		}
	}
	text := dom.FormatName(a.ep.Name())
	first, second, err := dom.ParseAddress(text + ",4711")
	if err != nil || !bytes.Equal(first, a.ep.Name()) ||
		!bytes.Equal(dom.Host(second), dom.Host(first)) {
		t.Errorf("%q with a second port: %x, %x, %v", text, first, second, err)
	}
}
