package wireshark

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gobtl/frag"
)

// ports of the captures that the tests make; no other dissector has registered them.
const (
	portA, portB = 47001, 47002
	portChosen   = 47003 // "decode as": everything here must be a packet
)

// concluded are the fields that are not on the wire: what follows from other packets.
var concluded = []string{
	"gobtl.stream", "gobtl.sender_tag", "gobtl.seq_relative", "gobtl.ack_relative",
	"gobtl.acked_in", "gobtl.acks_frame", "gobtl.ack_time", "gobtl.retransmission_of",
	"gobtl.replaces", "gobtl.refuses",
}

// experts are the notes that a valid packet can have; those on a datagram that is none begin with
// gobtl.bad_.
var experts = []string{
	"gobtl.foreign", "gobtl.cut", "gobtl.joined", "gobtl.retransmission", "gobtl.duplicate_ack",
	"gobtl.refused",
	"gobtl.rejected", "gobtl.voided", "gobtl.closes",
}

// TestTable: the tests know every field of the dissector, and no other.
func TestTable(t *testing.T) {
	known := slices.Concat(concluded, experts)
	for _, f := range onWire {
		known = append(known, f.name)
	}
	for _, rule := range rules {
		known = append(known, "gobtl.bad_"+rule)
	}
	for line := range strings.Lines(tshark(t, "-G", "fields")) {
		columns := strings.Split(line, "\t")
		if columns[0] != "F" || !strings.HasPrefix(columns[2], "gobtl.") {
			continue
		}
		i := slices.Index(known, columns[2])
		if i < 0 {
			t.Errorf("field %s is not tested", columns[2])
			continue
		}
		known = slices.Delete(known, i, i+1)
	}
	for _, name := range known {
		t.Errorf("the dissector has no field %s", name)
	}
}

// sample are the vectors, and Hellos with the other forms of addresses: sockaddr_in6, those of the
// provider udp.
func sample(t *testing.T) []vector {
	six := netip.MustParseAddrPort("[2001:db8::7]:8080")
	ip := six.Addr().As16()
	name := append([]byte{10, 0, 0x1F, 0x90, 0, 0, 0, 0}, ip[:]...)
	name = append(name, 0, 0, 0, 0)
	h := frag.Header{Kind: frag.KindHello, Seq: 77}
	m := frag.Hello{
		Incarnation: 5, Tag: 6, WindowPkts: 64, FragBytesMax: 1 << 20, MTUBytes: 1452,
		CommandBytes: 768, Credit: 1, VersionMin: frag.Version, VersionMax: frag.Version,
	}
	list := vectors(t)
	for _, form := range []struct {
		name string
		addr []byte
	}{
		{"hello-ipv6", name},
		{"hello-udp", []byte{4, 0x1F, 0x90, 127, 0, 0, 1}},
		{"hello-udp-ipv6", append([]byte{6, 0x1F, 0x90}, ip[:]...)},
	} {
		m.CommandName, m.DataName = form.addr, form.addr
		pkt := make([]byte, frag.HelloBytesMax)
		list = append(list, vector{form.name, pkt[:m.Encode(pkt, &h)]})
		r := frag.Retry{Nonce: 9, Addr: form.addr, Cookie: []byte("cookie")}
		pkt = make([]byte, frag.RetryBytesMax)
		list = append(list, vector{
			strings.Replace(form.name, "hello", "retry", 1),
			pkt[:r.Encode(pkt, 6)],
		})
	}
	// Extensions that nobody knows, one of them critical and empty.
	h.Kind = frag.KindHello
	pkt := make([]byte, frag.HelloBytesMax)
	pkt = append(pkt[:m.Encode(pkt, &h)], 17, 3, 1, 2, 3, 0x80|18, 0)
	pkt[24] += 7
	list = append(list, vector{"hello-extensions", pkt})
	return list
}

func capture(list []vector) (datagrams []datagram) {
	for _, v := range list {
		datagrams = append(datagrams, datagram{from: portA, to: portB, payload: v.pkt})
	}
	return datagrams
}

// TestVectors: every field has the value that package frag reads, and each one occurs.
func TestVectors(t *testing.T) {
	list := sample(t)
	packets, seen := checkFields(t, writeCapture(t, capture(list)), "udp")
	if len(packets) != len(list) {
		t.Fatalf("%d packets, want %d", len(packets), len(list))
	}
	for _, f := range onWire {
		if seen[f.name] == 0 {
			t.Errorf("no vector has %s", f.name)
		}
	}
}

// TestTrees: what tshark -V shows of a packet of each kind, the readers' view.
func TestTrees(t *testing.T) {
	list := sample(t)
	out := tshark(t, "-r", writeCapture(t, capture(list)), "-O", "gobtl")
	var trees strings.Builder
	for i, part := range strings.Split("\n"+out, "\nFrame ")[1:] {
		_, tree, ok := strings.Cut(part, "\ngobtl ")
		if !ok || i >= len(list) {
			t.Fatalf("frame %d is not dissected:\n%s", i+1, part)
		}
		trees.WriteString("# " + list[i].name + "\ngobtl " + strings.TrimRight(tree, "\n") + "\n\n")
	}
	golden(t, "kinds.txt", trees.String())
}

// TestJoined: a datagram of several packets as offloads leave it is dissected packet by packet;
// what only looks like one is not.
func TestJoined(t *testing.T) {
	pack := func(n int) []byte {
		record := make([]byte, frag.RecordHeaderBytes+n)
		frag.PutRecord(record, 1, record[:n])
		return packetOf(&frag.Header{Kind: frag.KindPack, Conn: tagB, Seq: 7}, record)
	}
	join := func(list ...[]byte) []byte { return bytes.Join(list, nil) }
	chunks := join(chunkOf(firstA, 0), chunkOf(firstA+1, roomBytes), chunkOf(firstA+2, 2*roomBytes))
	var datagrams []datagram
	want := []int{3, 4, 2, 3, 0, 0, 0, 0, 2, 0}
	for _, b := range [][]byte{
		chunks,
		join(pack(9), pack(9), pack(9), pack(0)),
		join(pack(20), ack(tagA, 9, 8, false)),
		join(ack(tagA, 1, 8, false), ack(tagA, 2, 8, false), ack(tagA, 3, 8, false)),
		join(pack(9), pack(0), pack(9)),
		join(pack(9), pack(10)),
		join(pack(9), []byte{0}),
		join(pack(9), pack(9)[:32], []byte{1}),
		chunks,
		chunks,
	} {
		datagrams = append(datagrams, datagram{from: portA, to: portB, payload: b, host: len(datagrams)})
	}
	datagrams[8].cutBytes, datagrams[9].cutBytes = 40, 200 // one chunk is whole only
	names := []string{"gobtl.magic", "gobtl.joined"}
	for i, row := range rows(t, writeCapture(t, datagrams), names) {
		n := strings.Count(row[0], "0x")
		if n != want[i] || (row[1] != "") != (n > 1) {
			t.Errorf("datagram %d: %d packets, joined %q, want %d", i, n, row[1], want[i])
		}
	}
	checkFields(t, writeCapture(t, datagrams[:4]), "udp")
}
