package frag

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"gobtl/internal/seq"
)

// rewrite makes the golden test write the vectors to testdata instead of comparing them. A change
// of a vector is a change of the protocol.
var rewrite = flag.Bool("rewrite", false, "write the golden vectors instead of checking them")

const (
	goldenFile  = "testdata/golden.hex"
	protocolDoc = "../docs/protocol.md"
)

// vector is one packet or one Name, with the decoded values.
type vector struct {
	name    string
	about   string
	header  Header
	payload []byte
	hello   *Hello // the body of a Hello or HelloAck
	retry   *Retry // the body of a Retry
	reject  Reject // the body of a Reject
	module  *Name  // a Name instead of a packet
}

const (
	testConn   = 0x8877665544332211
	testHandle = 0xA1A2A3A4A5A6A7A8
)

func testHello() *Hello {
	return &Hello{
		Incarnation: 0x0123456789ABCDEF, Tag: 0x1112131415161718, Expected: 0xFEDCBA9876543210,
		Nonce: 0x2122232425262728, Features: 0x8000000000000001, Required: 1,
		WindowPkts: 4096, FragBytesMax: 256 << 20, AckDelayUs: 50,
		MTUBytes: 1472, CommandBytes: 768, Credit: 92, VersionMin: 2, VersionMax: 3,
		Probe: ProbeData, Proven: 0x1,
		CommandName: []byte{4, 0x1F, 0x90, 127, 0, 0, 1},
		DataName:    []byte{4, 0x1F, 0x91, 127, 0, 0, 1},
	}
}

// goldenVectors are the packets of the documentation, in the order of the documentation.
func goldenVectors() []vector {
	return append(append(dataVectors(), pathVectors()...), handshakeVectors()...)
}

// pathVectors are the packets for path MTU discovery.
func pathVectors() []vector {
	head := func(offset, total byte) []byte { return []byte{offset, 0, 0, 0, total, 0, 0, 0} }
	return []vector{
		{
			name: "part", about: "bytes 64 to 69 of the 70 of packet 28, which is too large for the path",
			header: Header{
				Kind: KindPart, Conn: testConn, Seq: 28, Number: 30, PayloadLen: 14,
			}, payload: append(head(64, 70), "abcdef"...),
		},
		{
			name: "ping", about: "does a packet of 48 bytes get through?",
			header:  Header{Kind: KindPing, Conn: testConn, Number: 31, PayloadLen: 16},
			payload: []byte{0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0, 0, 0, 0, 0, 0, 0, 0},
		},
		{
			name: "pong", about: "it does",
			header:  Header{Kind: KindPong, Conn: testConn, Number: 32, PayloadLen: 8},
			payload: []byte{0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11},
		},
	}
}

func dataVectors() []vector {
	return []vector{
		{
			name: "frag-empty", about: "a Frag without payload, tag 0, first sequence number 0",
			header: Header{Kind: KindFrag, Conn: 1},
		},
		{
			name: "frag", about: "a Frag with five bytes and an acknowledgement",
			header: Header{
				Kind: KindFrag, Flags: FlagAck, Tag: 0x41, Conn: testConn,
				Seq: 0x01020304, Ack: 0x0A0B0C0D, Credit: 0x0102, PayloadLen: 5,
				Number: 0x21222324, CreditBytes: 0x0506,
			},
			payload: []byte("hello"),
		},
		{
			name: "frag-later", about: "the same, as a lone answer: its acknowledgement may come later",
			header: Header{
				Kind: KindFrag, Flags: FlagAck | FlagLater, Tag: 0x41, Conn: testConn,
				Seq: 0x01020304, Ack: 0x0A0B0C0D, Credit: 0x0102, PayloadLen: 5,
				Number: 0x21222324, CreditBytes: 0x0506,
			},
			payload: []byte("hello"),
		},
		{
			name: "frag-limits", about: "the caller's last tag, numbers at the wrap",
			header: Header{
				Kind: KindFrag, Flags: FlagAck, Tag: TagUserMax, Conn: 1<<64 - 1,
				Seq: 1<<32 - 1, Ack: 1<<32 - 1, Credit: 1<<16 - 1, PayloadLen: 1,
				Number: 1<<32 - 1, CreditBytes: CreditBytesAll,
			},
			payload: []byte{0xFF},
		},
		{
			name: "frag-put", about: "a Frag into a region",
			header: Header{
				Kind: KindFrag, Flags: FlagPut, Conn: testConn, Seq: 7,
				Handle: testHandle, PutOffset: 0x0000000100000002, PayloadLen: 3,
			},
			payload: []byte("put"),
		},
		{
			name: "frag-put-end", about: "the largest put offset that does not overflow",
			header: Header{
				Kind: KindFrag, Flags: FlagPut | FlagAck, Conn: testConn, Seq: 8, Ack: 9,
				Number: 9,
				Handle: testHandle, PutOffset: 1<<64 - 2, PayloadLen: 1,
			}, payload: []byte{0xEE},
		},
		{
			name: "frag-op", about: "the one byte that the notice of operation 0x31323334 awaits",
			header: Header{
				Kind: KindFrag, Flags: FlagPut | FlagAck | FlagOp, Conn: testConn, Seq: 9, Ack: 9,
				Handle: testHandle, PutOffset: 16, PayloadLen: 1, Number: 10,
				Op: 0x31323334, OpCode: OpPart,
			}, payload: []byte{0xEE},
		},
		{
			name: "frag-notice", about: "the notice of it: tag 7, awaits one byte, says hi",
			header: Header{
				Kind: KindFrag, Flags: FlagOp, Conn: testConn, Seq: 10, Tag: 7, PayloadLen: 6,
				Op: 0x31323334, Number: 11, OpCode: OpNotice,
			}, payload: []byte("\x01\x00\x00\x00hi"),
		},
		{
			name: "frag-placed", about: "a put of three bytes with its notice, which says hi",
			header: Header{
				Kind: KindFrag, Flags: FlagPut | FlagOp, Conn: testConn, Seq: 11, Tag: 7, PayloadLen: 5,
				Handle: testHandle, PutOffset: 16, Op: 5, Number: 12, OpCode: OpPlaced, OpBytes: 2,
			}, payload: []byte("puthi"),
		},
		{
			name: "frag-get", about: "100 bytes of a region from 16 on are wanted in another one",
			header: Header{
				Kind: KindFrag, Flags: FlagOp, Conn: testConn, Seq: 12, PayloadLen: GetBytes,
				Op: 6, Number: 13, OpCode: OpGet,
			}, payload: getBytes(Get{Handle: testHandle, Offset: 16, Answer: testConn, SizeBytes: 100}),
		},
		{
			name: "frag-atomic", about: "compare with 1 and swap with 2, 4 bytes, the old value is wanted",
			header: Header{
				Kind: KindFrag, Flags: FlagOp, Conn: testConn, Seq: 13, PayloadLen: AtomicBytes,
				Op: 7, Number: 14, OpCode: OpAtomic,
			}, payload: atomicBytes(Atomic{
				Handle: testHandle, Offset: 16, Operand: 2, Compare: 1, Action: ActionCompareSwap,
				WidthBytes: 4, Fetch: true,
			}),
		},
		{
			name: "frag-result", about: "that was 1 before",
			header: Header{
				Kind: KindFrag, Flags: FlagOp, Conn: testConn, Seq: 14, PayloadLen: ResultBytes,
				Op: 7, Number: 15, OpCode: OpResult,
			}, payload: []byte{1, 0, 0, 0, 0, 0, 0, 0},
		},
		{
			name: "frag-failed", about: "the region of operation 6 was taken away",
			header: Header{
				Kind: KindFrag, Flags: FlagOp, Conn: testConn, Seq: 15, PayloadLen: FailedBytes,
				Op: 6, Number: 16, OpCode: OpFailed,
			}, payload: []byte{NackAccess},
		},
		{
			name: "frag-bye", about: "the mark that ends a connection",
			header: Header{
				Kind: KindFrag, Flags: FlagAck, Tag: TagBye, Conn: testConn,
				Seq: 1 << 31, Ack: 1<<31 - 1, Credit: 8,
			},
		},
		{
			name: "frag-bye-owner", about: "the same with a code of its sender's owner, 0x0203",
			header: Header{
				Kind: KindFrag, Tag: TagBye, Conn: testConn, Seq: 13, PayloadLen: ByeCodeBytes,
				Number: 4,
			}, payload: []byte{0x03, 0x82},
		},
		{
			name: "frag-bye-aborted", about: "the end at once: what was before packet 14 is given up",
			header: Header{
				Kind: KindFrag, Tag: TagBye, Conn: testConn, Seq: 14, PayloadLen: ByeCodeBytes,
				Number: 5,
			}, payload: []byte{0x01, 0x00},
		},
		{
			name: "frag-void", about: "the mark in the place of a refused packet",
			header: Header{Kind: KindFrag, Tag: TagVoid, Conn: testConn, Seq: 12},
		},
		{
			name: "chunk-first", about: "bytes 0 to 3 of a fragment of 10",
			header: Header{
				Kind: KindChunk, Tag: 0x42, Conn: testConn, Seq: 20, FragID: 0x01020304,
				SizeBytes: 10, PayloadLen: 4, FirstBytes: 4, ChunkBytes: 128, Number: 21,
			}, payload: []byte("0123"),
		},
		{
			name: "chunk-last", about: "bytes 4 to 9 of the same fragment, with an acknowledgement",
			header: Header{
				Kind: KindChunk, Flags: FlagAck, Tag: 0x42, Conn: testConn, Seq: 22,
				Ack: 5, Credit: 64, FragID: 0x01020304, SizeBytes: 10, OffsetBytes: 4,
				PayloadLen: 6, FirstBytes: 4, ChunkBytes: 128, Number: 23, CreditBytes: 50,
			}, payload: []byte("456789"),
		},
		{
			name: "chunk-limits", about: "the last byte of the largest fragment",
			header: Header{
				Kind: KindChunk, Conn: testConn, Seq: 23, FragID: 1<<32 - 1,
				SizeBytes: 1<<32 - 1, OffsetBytes: 1<<32 - 2, PayloadLen: 1,
				FirstBytes: 1<<16 - 2, ChunkBytes: 1<<16 - 1, Number: 24,
			},
			payload: []byte{0x5A},
		},
		{
			name: "chunk-put", about: "a chunk into a region, with an acknowledgement",
			header: Header{
				Kind: KindChunk, Flags: FlagAck | FlagPut, Conn: testConn, Seq: 24,
				Ack: 6, Credit: 63, FragID: 5, SizeBytes: 10, OffsetBytes: 4, Handle: testHandle,
				PutOffset: 0x1004, PayloadLen: 4, Number: 25,
			}, payload: []byte("4567"),
		},
		{
			name: "pack", about: "three messages: none, one and eight bytes long",
			header: Header{
				Kind: KindPack, Flags: FlagAck, Conn: testConn, Seq: 26, Ack: 25, Credit: 62,
				PayloadLen: 21, Number: 27,
			},
			payload: records(
				record{tag: 0x41}, record{0x42, []byte("1")}, record{TagUserMax, []byte("12345678")},
			),
		},
		{
			name:  "pack-pieces",
			about: "the last three bytes of fragment 6, a whole one, and the first two of fragment 7",
			header: Header{
				Kind: KindPack, Conn: testConn, Seq: 27, PayloadLen: 54, Number: 28,
			},
			payload: slices.Concat(
				pieceOf(Header{
					Tag: 0x42, FragID: 6, SizeBytes: 132, OffsetBytes: 129, FirstBytes: 1,
					ChunkBytes: ChunkBytesMin,
				}, "789"),
				records(record{0x41, []byte("whole")}),
				pieceOf(Header{
					Tag: TagUserMax, FragID: 7, SizeBytes: 0xFFFFFFFF, FirstBytes: 2, ChunkBytes: 1424,
				}, "01"),
			),
		},
		{
			name: "ack", about: "an ACK-only packet",
			header: Header{
				Kind: KindAck, Flags: FlagAck, Conn: testConn, Ack: 0xFFFFFFFE,
				Credit: 4096, CreditBytes: CreditBytesAll, Number: 5,
			},
		},
		{
			name: "ack-ask", about: "the same; the one of packet 0x21222324 is asked for",
			header: Header{
				Kind: KindAck, Flags: FlagAck | FlagAsk, Conn: testConn, Ack: 0xFFFFFFFE,
				Seq: 0x21222324, Credit: 4096, CreditBytes: CreditBytesAll, Number: 5,
			},
		},
		{
			name: "ack-dup", about: "the same in answer to a packet received before",
			header: Header{
				Kind: KindAck, Flags: FlagAck | FlagDup, Conn: testConn, Ack: 0xFFFFFFFE,
				Credit: 4095,
			},
		},
		{
			name: "ack-sack", about: "the same, selective: nothing is missing; packet -2 came 50 us ago",
			header: Header{
				Kind: KindAck, Flags: FlagAck | FlagSack, Conn: testConn, Ack: 0xFFFFFFFE,
				Credit: 4096, PayloadLen: 24, Number: 6,
			},
			payload: sackBytes(Sack{Last: 0xFFFFFFFE, DelayUs: 50, LastNumber: 0x51525354, LastData: true}),
		},
		{
			name:  "ack-sack-gaps",
			about: "packet 6 is missing, 7 is here, so are 9 to 11 and 71, which came last; 3 came twice",
			header: Header{
				Kind: KindAck, Flags: FlagAck | FlagSack, Conn: testConn, Ack: 5, Credit: 66,
				PayloadLen: 36,
			},
			payload: sackBytes(Sack{
				Ranges: [SackRangesMax]SackRange{{0, 0}, {2, 2}, {64, 0}}, Count: 3,
				Last: 71, DelayUs: 3, UnreadUs: 400, Copies: 1, LastNumber: 90, Marks: 7,
			}),
		},
		{
			name: "ack-sack-far", about: "the far end of the largest window, where numbers wrap",
			header: Header{
				Kind: KindAck, Flags: FlagAck | FlagSack, Conn: testConn, Ack: 0xFFFF7FFF, Credit: 65535,
				PayloadLen: 36, Number: 7,
			},
			payload: sackBytes(Sack{
				Ranges: [SackRangesMax]SackRange{{32766, 0}, {32768, 32765}, {65535, 0}}, Count: 3,
				Last: 0x8000, LastNumber: 91, LastData: true,
			}),
		},
		{
			name: "nack", about: "put packet 24 refused",
			header: Header{Kind: KindNack, Tag: NackAccess, Conn: testConn, Seq: 24},
		},
		{
			name: "nack-ack", about: "packet 25 has no handler, with an acknowledgement",
			header: Header{
				Kind: KindNack, Flags: FlagAck, Tag: NackNoHandler, Conn: testConn,
				Seq: 25, Ack: 24, Credit: 1,
			},
		},
		{
			name: "nack-record", about: "pack 26 has a message for tag 0x42, which has no handler",
			header: Header{
				Kind: KindNack, Tag: NackRecord, Conn: testConn, Seq: 26, PayloadLen: 1,
			},
			payload: []byte{0x42},
		},
		{
			name:   "nack-memory",
			about:  "there was no memory for the fragment that packet 27 ends, in a reliable connection",
			header: Header{Kind: KindNack, Tag: NackMemory, Conn: testConn, Seq: 27},
		},
	}
}

// sackBytes is the payload of an Ack with a Sack.
func sackBytes(s Sack) []byte {
	b := make([]byte, s.Bytes())
	return b[:s.Encode(b)]
}

// record is a fragment in a pack.
type record struct {
	tag  uint8
	data []byte
}

// records is the payload of a pack.
func records(list ...record) []byte {
	b := bytes.Repeat([]byte{0xCC}, PayloadBytesMax)
	n := 0
	for _, r := range list {
		n += PutRecord(b[n:], r.tag, r.data)
	}
	return b[:n]
}

// pieceOf is the record of a piece.
func pieceOf(h Header, payload string) []byte {
	b := make([]byte, RecordHeaderBytes+PieceExtraBytes+len(payload))
	return b[:PutPiece(b, h.Tag, Piece{
		h.FragID, h.SizeBytes, h.OffsetBytes, h.FirstBytes, h.ChunkBytes,
	}, []byte(payload))]
}

// handshakeVectors are the other golden vectors, with the module name last.
func handshakeVectors() []vector {
	first := testHello()
	first.Expected, first.Probe, first.Proven, first.Credit = 0, ProbeCommand, 0, 0
	first.VersionMin, first.VersionMax = Version, Version
	cookie := func(with byte, n int) []byte { return bytes.Repeat([]byte{with}, n) }
	second := *first
	second.CommandCookie, second.DataCookie = cookie(0xC0, 20), cookie(0xD0, 20)
	second.Label = []byte("rank 7")
	edge := testHello()
	edge.CommandName, edge.DataName = cookie(0xC1, AddrBytesMax), cookie(0xD1, AddrBytesMax)
	edge.CommandCookie = cookie(0xC2, CookieBytesMax)
	edge.DataCookie = cookie(0xD2, CookieBytesMax)
	edge.Label = cookie(0xE1, LabelBytesMax)
	edge.AwayMs, edge.Padding = 1<<32-1, 64
	edge.Features, edge.Required = 1<<64-1, 1<<64-1
	edge.WindowPkts, edge.AckDelayUs, edge.VersionMax = WindowMax, AckDelayUsMax, VersionLimit
	edge.MTUBytes, edge.CommandBytes = 65535, MTUBytesMin
	edge.FragBytesMax, edge.Proven, edge.Overhead = 1<<32-1, ProvenAll, OverheadBytesMax
	module := moduleName()
	name, err := module.Append(nil)
	if err != nil {
		panic(err)
	}
	moved := testHello()
	moved.CommandName, moved.DataName, moved.Moved = nil, nil, name
	return []vector{
		{
			name: "hello", about: "the first Hello on the command channel: no tag, no cookies",
			header: Header{Kind: KindHello, Seq: 0xDEADBEEF}, hello: first,
		},
		{
			name: "retry", about: "the answer to it: its sender is seen at another port than it thinks",
			header: Header{Kind: KindRetry, Conn: first.Tag},
			retry: &Retry{
				Nonce: first.Nonce, Probe: ProbeCommand, Addr: []byte{4, 0x9C, 0x40, 127, 0, 0, 1},
				Cookie: cookie(0xC0, 20),
			},
		},
		{
			name: "hello-cookies", about: "the Hello again with the cookies of both channels, and a label",
			header: Header{Kind: KindHello, Seq: 0xDEADBEEF}, hello: &second,
		},
		{
			name: "hello-ack", about: "the answer to a Hello on the data channel",
			header: Header{Kind: KindHelloAck, Conn: testConn, Seq: 0x10, Number: 3},
			hello:  testHello(),
		},
		{
			name: "hello-ack-moved", about: "the owner sends the peer to another module of its process",
			header: Header{Kind: KindHelloAck, Conn: testConn, Number: 1}, hello: moved,
		},
		{
			name: "hello-limits", about: "every bounded field at a bound",
			header: Header{Kind: KindHello, Conn: testConn, Seq: 1<<32 - 1}, hello: edge,
		},
		{
			name: "reject", about: "no version in common; 1 to 3 are spoken",
			header: Header{Kind: KindReject, Tag: RejectVersion, Conn: testConn},
			reject: Reject{
				Reason: RejectVersion, VersionMin: 1, VersionMax: 3, Nonce: first.Nonce,
			},
		},
		{
			name: "reject-owner", about: "the peer's owner does not want it, for a reason of its own",
			header: Header{Kind: KindReject, Tag: RejectOwner, Conn: testConn},
			reject: Reject{
				Reason: RejectOwner, VersionMin: 2, VersionMax: 2, Code: 0x0403, Nonce: first.Nonce,
			},
		},
		{
			name: "reject-kept", about: "the owner decides later: the peer asks again after 5 s",
			header: Header{Kind: KindReject, Tag: RejectKept, Conn: testConn},
			reject: Reject{
				Reason: RejectKept, VersionMin: 2, VersionMax: 2, Code: 5000, Nonce: first.Nonce,
			},
		},
		{
			name: "name", about: "a module's name, not a packet",
			module: module,
		},
	}
}

func moduleName() *Name {
	return &Name{
		Provider: "ofi/udp", Incarnation: 0x0123456789ABCDEF, MTUBytes: 1472,
		CommandBytes: 768, Command: []byte{2, 0, 0x1F, 0x90, 127, 0, 0, 1},
		Data: []byte{2, 0, 0x1F, 0x91, 127, 0, 0, 1},
	}
}

// encode returns the vector's bytes.
func (v *vector) encode(tb testing.TB) []byte {
	tb.Helper()
	switch {
	case v.module != nil:
		b, err := v.module.Append(nil)
		if err != nil {
			tb.Fatalf("%s: %v", v.name, err)
		}
		return b
	case v.hello != nil:
		b, h := make([]byte, HelloBytesMax), v.header
		return b[:v.hello.Encode(b, &h)]
	case v.retry != nil:
		b := make([]byte, RetryBytesMax)
		return b[:v.retry.Encode(b, v.header.Conn)]
	case v.header.Kind == KindReject:
		b := make([]byte, RejectBytes)
		EncodeReject(b, v.header.Conn, Version, v.reject)
		return b
	}
	return encodePacket(&v.header, v.payload)
}

// packets returns the golden vectors that are packets.
func packets() []vector {
	all := goldenVectors()
	return all[:len(all)-1]
}

func encodePacket(h *Header, payload []byte) []byte {
	b := make([]byte, HeaderBytesMax+len(payload))
	// Bytes that Encode does not write must be visible.
	for i := range b {
		b[i] = 0xCC
	}
	n := h.Encode(b)
	return append(b[:n], payload...)
}

// reencode decodes pkt and encodes the result. The encoding of a valid packet must be unchanged.
func reencode(pkt []byte) ([]byte, error) {
	var h Header
	payload, err := Decode(pkt, &h)
	if err != nil {
		return nil, err
	}
	return encodePacket(&h, payload), nil
}

func readGolden(t *testing.T) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	return parseVectors(t, string(text))
}

// parseVectors reads lines of the form "name hex". The hexadecimal digits continue on lines that
// start with a blank, and comments start with '#'.
func parseVectors(t *testing.T, text string) map[string][]byte {
	t.Helper()
	digits := map[string]string{}
	name := ""
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" || line[0] == '#' {
			continue
		}
		fields := strings.Fields(line)
		if line[0] != ' ' {
			name, fields = fields[0], fields[1:]
			if _, twice := digits[name]; twice {
				t.Fatalf("vector %s stands there twice", name)
			}
		}
		digits[name] += strings.Join(fields, "")
	}
	out := map[string][]byte{}
	for name, d := range digits {
		b, err := hex.DecodeString(d)
		if err != nil {
			t.Fatalf("vector %s: %v", name, err)
		}
		out[name] = b
	}
	return out
}

// formatVectors is the inverse of parseVectors, with 32 bytes per line.
func formatVectors(tb testing.TB) string {
	var s strings.Builder
	for _, v := range goldenVectors() {
		fmt.Fprintf(&s, "# %s\n%s\n", v.about, v.name)
		for b := v.encode(tb); len(b) > 0; b = b[min(32, len(b)):] {
			fmt.Fprintf(&s, "    %x\n", b[:min(32, len(b))])
		}
	}
	return s.String()
}

func TestGoldenVectors(t *testing.T) {
	if *rewrite {
		text := formatVectors(t)
		if err := os.WriteFile(goldenFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden := readGolden(t)
	for _, v := range goldenVectors() {
		t.Run(v.name, func(t *testing.T) {
			want, ok := golden[v.name]
			if !ok {
				t.Fatal("no golden bytes")
			}
			delete(golden, v.name)
			if got := v.encode(t); !bytes.Equal(got, want) {
				t.Fatalf("encoded\n%x, golden\n%x", got, want)
			}
			checkDecoded(t, &v, want)
		})
	}
	for name := range golden {
		t.Errorf("golden vector %s is not tested", name)
	}
}

// TestDocumentedLayouts checks that the fields in each layout table of the document follow each
// other without gap or overlap. The tables must end where the code's headers end.
func TestDocumentedLayouts(t *testing.T) {
	doc, err := os.ReadFile(protocolDoc)
	if err != nil {
		t.Fatal(err)
	}
	var ends []int
	inTable, next := false, 0
	for line := range strings.Lines(string(doc)) {
		var offset, size int
		_, err := fmt.Sscanf(line, "| %d | %d |", &offset, &size)
		switch {
		case strings.HasPrefix(line, "| offset | bytes |"):
			inTable, next = true, -1
		case inTable && err == nil:
			if next >= 0 && offset != next {
				t.Errorf("offset %d, want %d: %s", offset, next, line)
			}
			next = offset + size
		case inTable && !strings.HasPrefix(line, "|---"):
			inTable = false
			ends = append(ends, next)
		}
	}
	want := []int{
		FragHeaderBytes, chunkExtraBytes, putExtraBytes, opExtraBytes, RecordHeaderBytes,
		SackHeadBytes, helloFixedBytes, retryHeadBytes, rejectBodyBytes,
		nameHeaderBytes,
		PingBytesMin, PartHeaderBytes, GetBytes, AtomicBytes,
	}
	if fmt.Sprint(ends) != fmt.Sprint(want) {
		t.Errorf("the tables end at %v, the headers at %v", ends, want)
	}
}

func checkDecoded(t *testing.T, v *vector, b []byte) {
	t.Helper()
	if v.module != nil {
		got, err := ParseName(b)
		if err != nil || !sameName(&got, v.module) {
			t.Fatalf("ParseName: %+v, %v, want %+v", got, err, v.module)
		}
		return
	}
	// Old content of the header must be overwritten.
	h := Header{
		Handle: 1, PutOffset: 2, FragID: 3, SizeBytes: 4, OffsetBytes: 5, Tag: 6, Seq: 7, Op: 8,
		OpCode: 13, OpBytes: 14, FirstBytes: 9, ChunkBytes: 10, Number: 11, CreditBytes: 12,
	}
	payload, err := Decode(b, &h)
	if err != nil {
		t.Fatal(err)
	}
	want := v.header
	want.PayloadLen = uint16(len(b) - HeaderBytes(want.Kind, want.Flags))
	if h != want {
		t.Fatalf("decoded %+v\nwant    %+v", h, want)
	}
	switch {
	case v.hello != nil:
		var m Hello
		if err := DecodeHello(payload, &m); err != nil || !sameHello(&m, v.hello) {
			t.Fatalf("DecodeHello: %+v, %v\nwant %+v", m, err, v.hello)
		}
	case v.header.Kind == KindReject:
		if got := DecodeReject(&h, payload); got != v.reject {
			t.Fatalf("%+v, want %+v", got, v.reject)
		}
	case v.retry != nil:
		var r Retry
		if err := DecodeRetry(payload, &r); err != nil || fmt.Sprint(r) != fmt.Sprint(*v.retry) {
			t.Fatalf("DecodeRetry: %+v, %v\nwant %+v", r, err, *v.retry)
		}
	default:
		if !bytes.Equal(payload, v.payload) {
			t.Fatalf("payload %q, want %q", payload, v.payload)
		}
	}
}

func sameHello(a, b *Hello) bool {
	x, y := *a, *b
	same := true
	ys := y.extensions()
	for i, e := range x.extensions() {
		same = same && bytes.Equal(*e.value, *ys[i].value)
		*e.value, *ys[i].value = nil, nil
	}
	return same && fmt.Sprint(x) == fmt.Sprint(y)
}

func sameName(a, b *Name) bool {
	return a.Provider == b.Provider && a.Incarnation == b.Incarnation && a.MTUBytes == b.MTUBytes &&
		a.CommandBytes == b.CommandBytes && bytes.Equal(a.Command, b.Command) &&
		bytes.Equal(a.Data, b.Data)
}

// wrapPoints are the sequence numbers near which arithmetic may overflow.
var wrapPoints = []seq.Num{0, 1, 1<<31 - 1, 1 << 31, 1<<31 + 1, 1<<32 - 2, 1<<32 - 1}
