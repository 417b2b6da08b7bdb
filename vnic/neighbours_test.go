package vnic

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// suppression is a port that answers its own device's questions, and a peer on the fabric.
type suppression struct {
	t         *testing.T
	b         *side
	peer, own MAC
}

func newSuppression(t *testing.T) *suppression {
	t.Helper()
	b := newSide(t, 5, 2, []uint32{1, 2, 3}, func(x *Tables) { x.Options.Suppress = true })
	return &suppression{t: t, b: b, peer: MACFor(5, 1), own: MACFor(5, 2)}
}

// hear has a frame come from a host.
func (s *suppression) hear(lid uint32, f []byte) {
	s.t.Helper()
	p, _ := (&Header{SLID: lid, DLID: GroupLID(5), VESW: 5}).Append(nil, f)
	if _, ok := s.b.host.Accept(tick, lid, p); !ok {
		s.t.Fatal("not accepted")
	}
}

// wants sends a frame of the device, and wants it to be answered here, or not.
func (s *suppression) wants(what string, f []byte, answered bool) {
	s.t.Helper()
	d := s.b.out.Forward(tick.Add(time.Millisecond), f, len(f))
	if got := d.Verdict == Answered; got != answered {
		s.t.Errorf("%s: answered here: %v, want %v", what, got, answered)
	}
}

func arpFrame(dst, src MAC, op uint16, sender, target uint32) []byte {
	p := be.AppendUint64(nil, 0x000108000604<<16|uint64(op))
	p = be.AppendUint32(append(p, src.Bytes()...), sender)
	p = be.AppendUint32(append(p, make([]byte, 6)...), target)
	return frame(dst, src, -1, typeARP, p...)
}

// nsFrame is a neighbour solicitation, or with another kind an advertisement; from 0 is the
// unspecified address, by which duplicates are looked for.
func nsFrame(dst, src MAC, kind, from, target byte) []byte {
	p := make([]byte, ip6Bytes+neighbourLen)
	p[0], p[5], p[6], p[7] = 0x60, neighbourLen, protoICMPv6, 255
	if from != 0 {
		p[8], p[23] = 0xFD, from
	}
	p[24], p[39] = 0xFD, target
	p[ip6Bytes], p[ip6Bytes+8], p[ip6Bytes+23] = kind, 0xFD, target
	p[ip6Bytes+24], p[ip6Bytes+25] = 2, 1
	src.Put(p[ip6Bytes+26:])
	return frame(dst, src, -1, typeIPv6, p...)
}

// An address that somebody is about to take may move: the old owner's is not given any more.
func TestSuppressionForgetsClaims(t *testing.T) {
	const v4, own4 = 0x0A000001, 0x0A000002
	group := MAC(0x3333FF000001)
	other := MACFor(5, 3)
	for _, c := range []struct {
		what string
		ask  []byte
		tell []byte
		take []byte
		own  bool // it is this port's own device that takes it
	}{
		{what: "ARP probe", take: arpFrame(Broadcast, other, arpRequest, 0, v4)},
		{
			what: "ARP probe of the own device", own: true,
			take: arpFrame(Broadcast, 0, arpRequest, 0, v4),
		},
		{
			what: "announcement of the own device", own: true,
			take: arpFrame(Broadcast, 0, arpRequest, v4, v4),
		},
		{what: "DAD", take: nsFrame(group, other, neighbourAsk, 0, 1)},
		{what: "DAD of the own device", own: true, take: nsFrame(group, 0, neighbourAsk, 0, 1)},
		{
			what: "advertisement of the own device", own: true,
			take: nsFrame(group, 0, neighbourTell, 1, 1),
		},
	} {
		s := newSuppression(t)
		ask, tell := arpFrame(Broadcast, s.own, arpRequest, own4, v4),
			arpFrame(s.own, s.peer, arpReply, v4, own4)
		if c.take[12] == 0x86 {
			ask = nsFrame(group, s.own, neighbourAsk, 2, 1)
			tell = nsFrame(s.own, s.peer, neighbourTell, 1, 1)
		}
		s.hear(1, tell)
		s.wants(c.what+": before", ask, true)
		s.hear(1, tell)
		if c.own {
			s.own.Put(c.take[6:])
			s.wants(c.what, c.take, false)
		} else {
			s.hear(3, c.take)
		}
		s.wants(c.what+": after", ask, false)
	}
}

// One that asks again got no answer from the address that it was told, or from the one that it has
// asked itself: its question goes to all. Others are answered as before.
func TestSuppressionOfThoseWhoAskAgain(t *testing.T) {
	const v4, own4 = 0x0A000001, 0x0A000002
	s := newSuppression(t)
	ask, tell := arpFrame(Broadcast, s.own, arpRequest, own4, v4),
		arpFrame(s.own, s.peer, arpReply, v4, own4)
	second := arpFrame(Broadcast, 0x020000000077, arpRequest, own4+1, v4)
	s.hear(1, tell)
	s.wants("first", ask, true)
	s.wants("again", ask, false)
	s.wants("of another one", second, true)
	s.wants("once more", ask, false)
	s.hear(1, tell)
	s.wants("after the owner has answered", ask, true)
	s.hear(1, tell)
	s.wants("the owner alone", arpFrame(s.peer, s.own, arpRequest, own4, v4), false)
	s.wants("after the owner was asked alone in vain", ask, false)
}

// TestSuppressionOfMany: more devices behind a port than it remembers ask for a neighbour that does
// not answer. None of them is told a second time, however many others ask in between, and the
// further ones ask all members. When the neighbour has spoken, all begin anew.
func TestSuppressionOfMany(t *testing.T) {
	const v4, own4 = 0x0A000001, 0x0A000100
	s := newSuppression(t)
	tell := arpFrame(s.own, s.peer, arpReply, v4, own4)
	ask := func(what string, i uint32, answered bool) {
		t.Helper()
		from := MAC(0x020000000100) + MAC(i)
		s.wants(fmt.Sprintf("%s, device %d", what, i),
			arpFrame(Broadcast, from, arpRequest, own4+i, v4), answered)
	}
	for range 2 {
		s.hear(1, tell)
		for i := range uint32(3 * toldMax) {
			ask("first", i, i < toldMax)
		}
		for i := range uint32(3 * toldMax) {
			ask("again", i, false)
		}
	}
}

// TestClaims: a host whose device reports an address that another one has, by the file or by its
// report, has a problem that says so, as long as it does.
func TestClaims(t *testing.T) {
	d := newDesk(t, threeHosts())
	a, b := d.join(1, testAgent("a", nil)), d.join(2, testAgent("b", nil))
	d.run()
	problem := func(host string) string {
		for _, h := range d.manager.Hosts() {
			if h.Name == host {
				return h.Problem
			}
		}
		return "no such host"
	}
	const mine = MAC(0x00DD00000001)
	a.SetMACs(d.now, 1, []MAC{mine}, nil)
	d.run()
	if a, b := problem("a"), problem("b"); a != "" || b != "" {
		t.Errorf("problems %q, %q", a, b)
	}
	for _, stolen := range []MAC{mine, a.Port(1).Info.BaseMAC} {
		b.SetMACs(d.now, 1, []MAC{0x00DD00000002, stolen}, nil)
		d.run()
		if text := problem("b"); !strings.Contains(text, stolen.String()) || problem("a") != "" {
			t.Errorf("reports %v of another one: problem %q, of that one %q", stolen, text, problem("a"))
		}
		if dlid, ok := b.Port(1).MACs.Lookup(stolen); !ok || dlid != 1 {
			t.Errorf("%v is at LID %d, %v", stolen, dlid, ok)
		}
	}
	b.SetMACs(d.now, 1, nil, nil)
	d.run()
	if text := problem("b"); text != "" {
		t.Errorf("it reports none, and has the problem %q", text)
	}
}

// TestOwner: ARP messages and advertisements say whose an IP address is; questions of IPv6, probes,
// forged and short frames say nothing.
func TestOwner(t *testing.T) {
	const mac, other MAC = 0x020000000011, 0x020000000022
	forged := arpFrame(Broadcast, mac, arpReply, 0x0A000001, 0x0A000002)
	other.Put(forged[6:])
	ten := []byte{10, 0, 0, 1}
	for name, c := range map[string]struct {
		f    []byte
		want []byte
	}{
		"request":       {arpFrame(Broadcast, mac, arpRequest, 0x0A000001, 0x0A000002), ten},
		"announcement":  {arpFrame(Broadcast, mac, arpReply, 0x0A000001, 0x0A000001), ten},
		"probe":         {arpFrame(Broadcast, mac, arpRequest, 0, 0x0A000001), nil},
		"forged":        {forged, nil},
		"advertisement": {nsFrame(Broadcast, mac, neighbourTell, 1, 2), nil},
		"solicitation":  {nsFrame(Broadcast, mac, neighbourAsk, 1, 2), nil},
		"short":         {frame(Broadcast, mac, -1, typeARP, 0, 1, 8, 0), nil},
		"other":         {frame(Broadcast, mac, -1, 0x9000, make([]byte, 60)...), nil},
	} {
		if name == "advertisement" {
			c.want = append(append([]byte{0xFD}, make([]byte, 14)...), 2)
		}
		i, _ := Inspect(c.f)
		ip, from, ok := Owner(c.f, &i)
		if ok != (c.want != nil) || ok && (!bytes.Equal(ip, c.want) || from != mac) {
			t.Errorf("%s: %v, %v, %v", name, ip, from, ok)
		}
	}
}
