package wireshark

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"gobtl/frag"
	"gobtl/internal/seq"
)

// step is a packet of the example exchange.
type step struct {
	about string
	fromB bool
	data  bool // on the data channel
	lost  bool
	pkt   []byte
}

// The two ends of the example.
const (
	tagA, tagB     = 0xAAAAAAAAAAA00001, 0xBBBBBBBBBBB00002
	firstA, firstB = seq.Num(1000), seq.Num(2000)
	mtuBytes       = 256
	roomBytes      = mtuBytes - frag.ChunkHeaderBytes
	messageBytes   = 2*roomBytes + 8
)

// example is the exchange of the page: a connection, a message, a fragment of three chunks one of
// which is lost, the end.
func example() []step {
	a := func(about string, data bool, pkt []byte) step {
		return step{about: about, data: data, pkt: pkt}
	}
	b := func(about string, pkt []byte) step { return step{about: about, fromB: true, pkt: pkt} }
	chunk := func(i uint32) []byte { return chunkOf(firstA.Add(1+i), i*roomBytes) }
	lost := a("The second, bytes 208 to 415, is lost", true, chunk(1))
	lost.lost = true
	var list []step
	flight := func(about string, fromB bool, pkt func(p frag.Probe) []byte) {
		for p := range frag.Probe(frag.ProbeCount) {
			list = append(list, step{about: about, fromB: fromB, data: p == frag.ProbeData, pkt: pkt(p)})
			about = ""
		}
	}
	flight("A connects to B: a Hello by each channel", false, func(p frag.Probe) []byte {
		return hello(frag.KindHello, 0, firstA, false, p, 0, false)
	})
	flight("B remembers nothing, and gives a cookie for each of the two addresses", true, retry)
	flight("A shows both", false, func(p frag.Probe) []byte {
		return hello(frag.KindHello, 0, firstA, false, p, 0, true)
	})
	flight("B answers each with its tag and the nonce, on the channel of the question", true,
		func(p frag.Probe) []byte {
			return hello(frag.KindHelloAck, tagA, firstB, true, p, 0, false)
		})
	return numbered(append(
		list,
		a("A is established. It says that first, which asks for confirmation", false,
			hello(frag.KindHello, tagB, firstA, false, frag.ProbeCommand, frag.ProvenAll, false)),
		a("It grants 32 packets; nothing of B has arrived yet", false,
			ack(tagB, firstB-1, 32, true)),
		b("B got its tag back and is established too: it confirms, and grants 32 packets",
			hello(frag.KindHelloAck, tagA, firstB, true, frag.ProbeCommand, frag.ProvenAll, false)),
		b("", ack(tagA, firstA-1, 32, true)),
		a(`A sends "hi" to handler 1; after 50 us B acknowledges it`, false,
			packetOf(&frag.Header{Kind: frag.KindFrag, Tag: 1, Conn: tagB, Seq: firstA}, []byte("hi"))),
		b("", ack(tagA, firstA, 32, false)),
		a("A sends 424 bytes to handler 2: three chunks, 208 bytes in each but the last", true, chunk(0)),
		lost,
		a("", true, chunk(2)),
		b("B has the first and the third, and can acknowledge the first",
			ack(tagA, firstA+1, 32, false)),
		a("After 100 ms A sends the second one again. Now B has all and delivers them", true, chunk(1)),
		b("", ack(tagA, firstA+3, 32, false)),
		a("A closes. When B has acknowledged it, A forgets the connection; B lingers", false,
			markOf(frag.TagBye, firstA+4)),
		b("", ack(tagA, firstA+4, 32, false)),
	))
}

// numbered gives each packet of an exchange the next number of its way and channel.
func numbered(list []step) []step {
	numbers := map[[2]bool]uint32{}
	for _, st := range list {
		kind := frag.Kind(st.pkt[1] & 0x0F)
		if frag.ConnOf(st.pkt) != 0 && kind != frag.KindReject && kind != frag.KindRetry {
			key := [2]bool{st.fromB, st.data}
			numbers[key]++
			frag.SetNumber(st.pkt, numbers[key])
		}
	}
	return list
}

func hello(kind frag.Kind, conn uint64, first seq.Num, fromB bool, p frag.Probe,
	proven uint8, cookies bool,
) []byte {
	m := frag.Hello{
		Incarnation: 0xA1, Tag: tagA, Expected: 0xB1, Nonce: nonceOf(p),
		WindowPkts: 64, FragBytesMax: 1 << 20,
		MTUBytes: mtuBytes, CommandBytes: mtuBytes, Credit: 1, AckDelayUs: 50,
		VersionMin: frag.Version, VersionMax: frag.Version, Probe: p, Proven: proven,
		CommandName: sockaddrIn(1, portA), DataName: sockaddrIn(1, portA+100),
	}
	if fromB {
		m.Incarnation, m.Tag, m.Expected = 0xB1, tagB, 0
		m.CommandName, m.DataName = sockaddrIn(2, portB), sockaddrIn(2, portB+100)
	}
	if cookies {
		m.CommandCookie, m.DataCookie = cookieOf(frag.ProbeCommand), cookieOf(frag.ProbeData)
	}
	pkt := make([]byte, frag.HelloBytesMax)
	return pkt[:m.Encode(pkt, &frag.Header{Kind: kind, Conn: conn, Seq: first})]
}

func nonceOf(p frag.Probe) uint64 { return 0xC1 + uint64(p) }

func cookieOf(p frag.Probe) []byte { return bytes.Repeat([]byte{0xD1 + byte(p)}, 20) }

// retry is the answer of B to A's first Hello by a channel.
func retry(p frag.Probe) []byte {
	r := frag.Retry{
		Nonce: nonceOf(p), Probe: p, Addr: sockaddrIn(1, portA+100*uint16(p)), Cookie: cookieOf(p),
	}
	pkt := make([]byte, frag.RetryBytesMax)
	return pkt[:r.Encode(pkt, tagA)]
}

// sockaddrIn is the address of 10.0.0.host.
func sockaddrIn(host byte, port uint16) []byte {
	return []byte{2, 0, byte(port >> 8), byte(port), 10, 0, 0, host, 0, 0, 0, 0, 0, 0, 0, 0}
}

func packetOf(h *frag.Header, payload []byte) []byte {
	h.PayloadLen = uint16(len(payload))
	pkt := make([]byte, frag.HeaderBytes(h.Kind, h.Flags))
	h.Encode(pkt)
	return append(pkt, payload...)
}

func markOf(mark uint8, n seq.Num) []byte {
	return packetOf(&frag.Header{Kind: frag.KindFrag, Tag: mark, Conn: tagB, Seq: n}, nil)
}

func ack(conn uint64, n seq.Num, credit uint16, dup bool) []byte {
	h := frag.Header{Kind: frag.KindAck, Flags: frag.FlagAck, Conn: conn, Ack: n, Credit: credit}
	h.CreditBytes = frag.CreditBytesAll
	if dup {
		h.Flags |= frag.FlagDup
	}
	return packetOf(&h, nil)
}

func chunkOf(n seq.Num, offset uint32) []byte {
	letter := []byte{byte('a' + offset/roomBytes)}
	payload := bytes.Repeat(letter, int(min(roomBytes, messageBytes-offset)))
	return packetOf(&frag.Header{
		Kind: frag.KindChunk, Tag: 2, Conn: tagB, Seq: n, FragID: 1, SizeBytes: messageBytes,
		OffsetBytes: offset, FirstBytes: roomBytes, ChunkBytes: roomBytes,
	}, payload)
}

// formatExample writes the exchange as the file has it: the way and the channel of each packet,
// then its bytes; a byte that comes n times is written xx*n.
func formatExample(list []step) string {
	var s strings.Builder
	for i, st := range list {
		if st.about != "" {
			fmt.Fprintf(&s, "# %s\n", st.about)
		}
		way, channel, lost := "A>B", "command", ""
		if st.fromB {
			way = "B>A"
		}
		if st.data {
			channel = "data"
		}
		if st.lost {
			lost = " lost"
		}
		fmt.Fprintf(&s, "%d %s %s%s\n", i+1, way, channel, lost)
		line := "   "
		for _, token := range runs(st.pkt) {
			if len(line)+1+len(token) > 100 {
				s.WriteString(line + "\n")
				line = "   "
			}
			line += " " + token
		}
		s.WriteString(line + "\n")
	}
	return s.String()
}

// runs cuts a packet into words of at most four bytes and runs of one byte.
func runs(pkt []byte) (tokens []string) {
	for len(pkt) > 0 {
		n := 1
		for n < len(pkt) && pkt[n] == pkt[0] {
			n++
		}
		if n > 4 {
			tokens = append(tokens, fmt.Sprintf("%02x*%d", pkt[0], n))
			pkt = pkt[n:]
			continue
		}
		word := 1
		for word < min(4, len(pkt)) && !bytes.HasPrefix(pkt[word:], bytes.Repeat(pkt[word:word+1], 5)) {
			word++
		}
		tokens = append(tokens, hex.EncodeToString(pkt[:word]))
		pkt = pkt[word:]
	}
	return tokens
}

// parseExample is the inverse of formatExample, without the comments.
func parseExample(t *testing.T, text string) (list []step) {
	t.Helper()
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case line[0] == '#':
		case line[0] != ' ':
			list = append(list, step{
				fromB: words[1] == "B>A", data: words[2] == "data", lost: len(words) > 3,
			})
		default:
			for _, word := range words {
				digits, count, _ := strings.Cut(word, "*")
				b, err := hex.DecodeString(digits)
				n := 1
				if err == nil && count != "" {
					n, err = strconv.Atoi(count)
				}
				if err != nil {
					t.Fatalf("%q: %v", word, err)
				}
				st := &list[len(list)-1]
				st.pkt = append(st.pkt, bytes.Repeat(b, n)...)
			}
		}
	}
	return list
}

// documentedExample reads the exchange from its file; with -rewrite it is written there first.
func documentedExample(t *testing.T) string {
	t.Helper()
	if *rewrite {
		text := formatExample(example())
		if err := os.WriteFile(exampleFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return text
	}
	data, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestExample: the file has what package frag encodes.
func TestExample(t *testing.T) {
	text := documentedExample(t)
	if want := formatExample(example()); text != want {
		t.Errorf("the file has\n%s\nwant\n%s", text, want)
	}
}

// asCapture is an exchange as it arrives: what is lost is not in it, or, at the sender, it is.
func asCapture(list []step, withLost bool) (datagrams []datagram) {
	for _, st := range list {
		if st.lost && !withLost {
			continue
		}
		d := datagram{from: portA, to: portB, payload: st.pkt}
		if st.fromB {
			d.from, d.to = d.to, d.from
		}
		if st.data {
			d.from, d.to = d.from+100, d.to+100
		}
		datagrams = append(datagrams, d)
	}
	return datagrams
}

// packed is a pack of three messages, without those of the tag that is left out.
func packed(leftOut uint8) []byte {
	var payload []byte
	for i, tag := range []uint8{1, 9, 1} {
		if tag != leftOut {
			record := make([]byte, frag.RecordHeaderBytes+1)
			frag.PutRecord(record, tag, []byte{byte('a' + i)})
			payload = append(payload, record...)
		}
	}
	return packetOf(&frag.Header{Kind: frag.KindPack, Conn: tagB, Seq: firstA + 2}, payload)
}

// refusals is an exchange with what the example lacks: a refused put and the Void in its place, a
// chunk that comes while another one is missing, so that the ack repeats, a pack with a message
// that is refused, which is sent again without, then once more, and a Reject.
func refusals() []step {
	put := frag.Header{
		Kind: frag.KindFrag, Flags: frag.FlagPut, Conn: tagB, Seq: firstA, Handle: 9, PutOffset: 64,
	}
	nack := frag.Header{
		Kind: frag.KindNack, Flags: frag.FlagAck, Tag: frag.NackAccess, Conn: tagA, Seq: firstA,
		Ack: firstA - 1, Credit: 32, CreditBytes: frag.CreditBytesAll,
	}
	record := frag.Header{Kind: frag.KindNack, Tag: frag.NackRecord, Conn: tagA, Seq: firstA + 2}
	reject := make([]byte, frag.RejectBytes)
	frag.EncodeReject(reject, tagA+0x100000, frag.Version, frag.Reject{
		Reason: frag.RejectFull, VersionMin: frag.Version, VersionMax: frag.Version, Nonce: nonceOf(0),
	})
	list := append(example()[:1:1], example()[6], example()[9], example()[11])
	return numbered(append(
		list,
		step{pkt: packetOf(&put, []byte("secret"))},
		step{pkt: chunkOf(firstA+1, 0), data: true},
		step{pkt: packetOf(&nack, nil), fromB: true},
		step{pkt: ack(tagA, firstA-1, 32, false), fromB: true},
		step{pkt: ack(tagA, firstA-1, 32, true), fromB: true},
		step{pkt: markOf(frag.TagVoid, firstA), data: true},
		step{pkt: ack(tagA, firstA+1, 30, false), fromB: true},
		step{pkt: packed(0)},
		step{pkt: packetOf(&record, []byte{9}), fromB: true},
		step{pkt: packed(9), data: true},
		step{pkt: packed(9), data: true},
		step{pkt: ack(tagA, firstA+2, 30, false), fromB: true},
		step{pkt: reject, fromB: true},
	))
}

// relying is a Hello of a side that relies on its carrier.
func relying(pkt []byte) []byte {
	const featuresAt = frag.FragHeaderBytes + 32
	pkt[featuresAt] |= byte(frag.FeatureReliable)
	return pkt
}

// reliable is an exchange of two that rely on their carrier. Packets for which nobody waits have
// number 0, which is neither a number nor a sign that one was sent again; others have the count.
func reliable() []step {
	frags := func(n seq.Num) step {
		return step{pkt: packetOf(&frag.Header{Kind: frag.KindFrag, Tag: 1, Conn: tagB, Seq: n},
			[]byte("hi"))}
	}
	chunk := func(n seq.Num, offset uint32) step { return step{pkt: chunkOf(n, offset)} }
	nack := frag.Header{Kind: frag.KindNack, Tag: frag.NackMemory, Conn: tagA, Seq: firstA + 5}
	answer := func(pkt []byte) step { return step{pkt: pkt, fromB: true, data: true} }
	return []step{
		{pkt: relying(hello(frag.KindHello, 0, firstA, false, frag.ProbeCommand, 0, false))},
		{
			pkt:   relying(hello(frag.KindHelloAck, tagA, firstB, true, frag.ProbeCommand, 0, false)),
			fromB: true,
		},
		{pkt: ack(tagB, firstB-1, 32, true), data: true},
		answer(ack(tagA, firstA-1, 32, true)),
		frags(0),
		frags(0),
		frags(firstA + 2),
		answer(ack(tagA, firstA+2, 32, false)),
		chunk(0, 0),
		chunk(0, roomBytes),
		chunk(firstA+5, 2*roomBytes),
		answer(packetOf(&nack, nil)),
		answer(ack(tagA, firstA+5, 32, false)),
		{pkt: markOf(frag.TagVoid, firstA+6)},
		answer(ack(tagA, firstA+6, 32, false)),
	}
}

// TestListing: the lines that tshark prints for the example of the page, as a capture at A and at B
// has it, for refusals, and for a reliable connection, with what the dissector concludes.
func TestListing(t *testing.T) {
	shown := parseExample(t, documentedExample(t))
	var listing strings.Builder
	for _, c := range []struct {
		name string
		list []datagram
	}{
		{"the example at A", asCapture(shown, true)},
		{"the example at B", asCapture(shown, false)},
		{"refusals", asCapture(refusals(), true)},
		{"reliable", asCapture(reliable(), true)},
	} {
		file := writeCapture(t, c.list)
		packets, _ := checkFields(t, file, "udp")
		if len(packets) != len(c.list) {
			t.Errorf("%s: %d packets, want %d", c.name, len(packets), len(c.list))
		}
		fmt.Fprintf(&listing, "# %s\n", c.name)
		names := append([]string{"frame.number", "_ws.col.Info"}, concluded...)
		for _, row := range rows(t, file, append(names, "_ws.expert.message"), "-2") {
			fmt.Fprintf(&listing, "%2s %s\n", row[0], row[1])
			for i, value := range row[2:] {
				if name := append(concluded, "expert")[i]; value != "" {
					fmt.Fprintf(&listing, "      %s %s\n", strings.TrimPrefix(name, "gobtl."), value)
				}
			}
		}
	}
	golden(t, "listing.txt", listing.String())
}
