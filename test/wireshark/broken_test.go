package wireshark

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gobtl/frag"
)

// rules are those that make bytes a packet: the errors of package frag, in the same order.
var rules = []string{
	"short", "magic", "version", "kind", "flags", "tag", "conn", "length", "bounds", "reserved",
	"hello",
}

var ruleErrors = []error{
	frag.ErrShort, frag.ErrMagic, frag.ErrVersion, frag.ErrKind, frag.ErrFlags, frag.ErrTag,
	frag.ErrConn, frag.ErrLength, frag.ErrBounds, frag.ErrReserved, frag.ErrHello,
}

// broken are the vectors with every bit changed in turn, every shorter part, a byte more, and a few
// thousand with several bytes changed. Some of them are packets all the same.
func broken(t *testing.T) (list [][]byte) {
	for _, v := range sample(t) {
		if strings.HasPrefix(v.name, "hello-udp") {
			continue // to these rules it is as good as the others
		}
		list = append(list, append(slices.Clone(v.pkt), 0))
		for n := 1; n < len(v.pkt); n++ {
			list = append(list, v.pkt[:n])
		}
		for i := range v.pkt {
			bits := 8
			if i >= 84 {
				bits = 1 // addresses, padding: one bit is as good as another
			}
			for bit := range bits {
				pkt := slices.Clone(v.pkt)
				pkt[i] ^= 1 << bit
				list = append(list, pkt)
			}
		}
		random := rand.New(rand.NewPCG(1, uint64(len(list))))
		for range 200 {
			pkt := slices.Clone(v.pkt)
			for range 2 + random.IntN(4) {
				pkt[random.IntN(min(len(pkt), 80))] = byte(random.Uint32() >> random.IntN(32))
			}
			list = append(list, pkt)
		}
	}
	return list
}

// separate gives each datagram a conversation of its own: a dissector that has taken a broken one
// would keep the rest.
func separate(list [][]byte, to uint16) (datagrams []datagram) {
	for i, pkt := range list {
		datagrams = append(datagrams, datagram{from: 50000, to: to, payload: pkt, host: i})
	}
	return datagrams
}

// foreign says whether a datagram is one that can be read in every version.
func foreign(pkt []byte) bool {
	_, hello := frag.ForeignHello(pkt)
	const rejectBytesOfOne = 26 // of version 1
	return hello || len(pkt) >= rejectBytesOfOne && pkt[0] == frag.Magic &&
		pkt[1]&0x0F == byte(frag.KindReject) && (pkt[1]>>4 == 1 && len(pkt) == rejectBytesOfOne ||
		pkt[1]>>4 != 1 && pkt[1]>>4 != frag.Version && len(pkt) == frag.RejectBytes)
}

// TestUnclaimed: on a port of its own choice the dissector takes just what package frag takes.
func TestUnclaimed(t *testing.T) {
	list := broken(t)
	packets := 0
	for i, row := range rows(t, writeCapture(t, separate(list, portB)), []string{"gobtl.magic"}) {
		_, err := decode(list[i])
		if claimed := row[0] != ""; claimed != (err == nil) {
			t.Errorf("claimed: %v, frag: %v\n%x", claimed, err, list[i])
		}
		if err == nil {
			packets++
		}
	}
	if packets < len(list)/20 || packets > len(list)*19/20 {
		t.Errorf("%d of %d are packets: the test is one-sided", packets, len(list))
	}
}

// TestMalformed: on a port that was chosen for the protocol what is no packet shows the rule that
// package frag names, and a packet shows none.
func TestMalformed(t *testing.T) {
	list := broken(t)
	names := []string{"_ws.col.Protocol", "gobtl.foreign"}
	for _, rule := range rules {
		names = append(names, "gobtl.bad_"+rule)
	}
	found := map[string]int{}
	file := writeCapture(t, separate(list, portChosen))
	for i, row := range rows(t, file, names, "-d", "udp.port==47003,gobtl") {
		checkBroken(t, list[i], row, found)
	}
	for _, rule := range rules {
		if found[rule] == 0 {
			t.Errorf("rule %s was never broken", rule)
		}
	}
}

// TestPortsPreference: the dissector's own preference chooses ports as "decode as" does.
func TestPortsPreference(t *testing.T) {
	file := writeCapture(t, []datagram{
		{from: 50000, to: portA, payload: []byte("nothing")},
		{from: 50000, to: portChosen, payload: []byte("nothing")},
	})
	for i, row := range rows(t, file, []string{"gobtl.bad_short"}, "-o", "gobtl.ports:9,47003-47004") {
		if chosen := row[0] != ""; chosen != (i == 1) {
			t.Errorf("datagram %d: taken %v", i, chosen)
		}
	}
}

func checkBroken(t *testing.T, pkt []byte, row []string, found map[string]int) {
	t.Helper()
	var shown []string
	for i, rule := range rules {
		if row[2+i] != "" {
			shown = append(shown, rule)
		}
	}
	_, err := decode(pkt)
	switch {
	case row[0] != "gobtl":
		t.Errorf("of protocol %s\n%x", row[0], pkt)
	case foreign(pkt):
		if row[1] == "" || len(shown) > 0 {
			t.Errorf("another version, shown %q %v\n%x", row[1], shown, pkt)
		}
	case err == nil:
		if len(shown) > 0 {
			t.Errorf("a packet is shown as %v\n%x", shown, pkt)
		}
	default:
		i := slices.IndexFunc(ruleErrors, func(e error) bool { return errors.Is(err, e) })
		if !slices.Contains(shown, rules[i]) {
			t.Errorf("frag: %v, shown %v\n%x", err, shown, pkt)
		}
		found[rules[i]]++
	}
}

// TestCut: a capture that keeps only the first bytes of a packet shows what it has.
func TestCut(t *testing.T) {
	var datagrams []datagram
	list := sample(t)
	for _, v := range list {
		for n := range v.pkt {
			d := datagram{from: portA, to: portChosen, payload: v.pkt, cutBytes: len(v.pkt) - n}
			datagrams = append(datagrams, d)
			d.to = portB
			datagrams = append(datagrams, d)
		}
	}
	names := []string{"gobtl.cut", "gobtl.magic"}
	for _, rule := range rules {
		names = append(names, "gobtl.bad_"+rule)
	}
	for i, row := range rows(t, writeCapture(t, datagrams), names, "-d", "udp.port==47003,gobtl") {
		whole := len(datagrams[i].payload)-datagrams[i].cutBytes >= frag.FragHeaderBytes
		if broken := strings.Join(row[2:], ""); broken != "" {
			t.Errorf("%v: rules broken", datagrams[i])
		}
		if (row[1] != "") != whole || whole && row[0] == "" {
			t.Errorf("%d bytes kept of %x: cut %q, magic %q", len(datagrams[i].payload)-
				datagrams[i].cutBytes, datagrams[i].payload, row[0], row[1])
		}
	}
}
