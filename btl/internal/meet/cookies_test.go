package meet

import (
	"bytes"
	"testing"

	"gobtl/frag"
)

func newStrangers() *Strangers {
	s, n := new(Strangers), uint64(0)
	s.Init(func() uint64 { n++; return n * 0x9e3779b97f4a7c15 })
	return s
}

// with has a Hello show the cookies that were given for its addresses at an instant.
func with(s *Strangers, hello frag.Hello, now Time) frag.Hello {
	hello.Probe = frag.ProbeCommand
	hello.CommandCookie = bytes.Clone(s.Retry(now, &hello, hello.CommandName).Cookie)
	hello.Probe = frag.ProbeData
	hello.DataCookie = bytes.Clone(s.Retry(now, &hello, hello.DataName).Cookie)
	return hello
}

// Only the cookies for the addresses, the channels, the life and the tag of a Hello prove it, from
// where they were sent to, and for a while.
func TestProves(t *testing.T) {
	s := newStrangers()
	hello := frag.Hello{
		CommandName: []byte("here:1"), DataName: []byte("here:2"), Incarnation: 5, Tag: 6,
	}
	now := 100 * Time(CookieSlot)
	good := with(s, hello, now)
	for _, c := range []struct {
		name   string
		after  Time
		source string
		change func(h *frag.Hello)
		want   bool
	}{
		{"as given", 0, "", func(*frag.Hello) {}, true},
		{"from there", 0, "here:2", func(*frag.Hello) {}, true},
		{"from elsewhere", 0, "here:3", func(*frag.Hello) {}, false},
		{"later", Time(CookieSlot), "", func(*frag.Hello) {}, true},
		{"too late", 2 * Time(CookieSlot), "", func(*frag.Hello) {}, false},
		{"another tag", 0, "", func(h *frag.Hello) { h.Tag++ }, false},
		{"another life", 0, "", func(h *frag.Hello) { h.Incarnation++ }, false},
		{"another address", 0, "", func(h *frag.Hello) { h.DataName = []byte("here:9") }, false},
		{"one cookie", 0, "", func(h *frag.Hello) { h.DataCookie = nil }, false},
		{"the other's cookie", 0, "", func(h *frag.Hello) { h.DataCookie = h.CommandCookie }, false},
	} {
		h := good
		c.change(&h)
		if got := s.Proves(now+c.after, &h, []byte(c.source)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// A pass answers a bounded number of Hellos that prove nothing, none with more bytes than it has.
func TestRetriesOfAPass(t *testing.T) {
	s := newStrangers()
	for pass := range uint64(3) {
		answered := 0
		for i := range 1000 {
			if s.MayRetry(pass, 0, []byte{byte(i), byte(i >> 8)}, frag.HelloBytesMax) {
				answered++
			}
		}
		if answered != retriesPerPass {
			t.Errorf("pass %d answers %d", pass, answered)
		}
	}
	if s.MayRetry(9, 0, []byte("here:1"), 8) {
		t.Error("more is sent to a stranger than came in its name")
	}
}

// An address that sends Hellos without end gets a few answers in a pass. Nearly all of many others,
// which send one Hello each behind it, get theirs.
func TestRetriesOfAnAddress(t *testing.T) {
	s := newStrangers()
	const others = 40
	answered := 0
	for pass := uint64(1); pass <= 100; pass++ {
		flood := 0
		for range 1000 {
			if s.MayRetry(pass, 0, []byte("flood"), frag.HelloBytesMax) {
				flood++
			}
		}
		if flood != retriesOfPlace {
			t.Fatalf("pass %d answers %d of one address", pass, flood)
		}
		for i := range others {
			if s.MayRetry(pass, 0, []byte{byte(i)}, frag.HelloBytesMax) {
				answered++
			}
		}
	}
	if answered < others*100*95/100 {
		t.Errorf("%d of %d others are answered", answered, others*100)
	}
}

// A pass refuses an address once by each channel, and many others at the same time.
func TestRejectsOfAPass(t *testing.T) {
	s := newStrangers()
	for pass := uint64(1); pass < 4; pass++ {
		for p := range frag.Probe(frag.ProbeCount) {
			if !s.MayReject(pass, p, []byte("here")) || s.MayReject(pass, p, []byte("here")) {
				t.Errorf("pass %d: not once by channel %d", pass, p)
			}
		}
	}
	told := 0
	for i := range 100 * RejectPlaces {
		if s.MayReject(9, 0, []byte{byte(i), byte(i >> 8)}) {
			told++
		}
	}
	if told != RejectPlaces {
		t.Errorf("a pass refuses %d of many", told)
	}
}

// What a Hello asks for that cannot be is refused, but not the own Hello that somebody sends back.
func TestUnfit(t *testing.T) {
	const own, features = 5, 6
	for _, c := range []struct {
		name   string
		hello  frag.Hello
		reason uint8
		unfit  bool
	}{
		{"plain", frag.Hello{Incarnation: 9}, 0, false},
		{"to this life", frag.Hello{Incarnation: 9, Expected: own, Required: 2}, 0, false},
		{"to another life", frag.Hello{Incarnation: 9, Expected: 4}, frag.RejectStale, true},
		{"its own", frag.Hello{Incarnation: own, Expected: 4}, 0, true},
		{"needs more", frag.Hello{Required: 1}, frag.RejectFeature, true},
		{"needs what is not known", frag.Hello{Critical: 1}, frag.RejectFeature, true},
		{"needs room", frag.Hello{Overhead: 1}, frag.RejectFeature, true},
	} {
		c.hello.Nonce = 77
		answer, unfit := Unfit(&c.hello, own, features)
		if unfit != c.unfit || answer.Reason != c.reason || answer.Nonce != 77 {
			t.Errorf("%s: %+v, %v", c.name, answer, unfit)
		}
	}
}
