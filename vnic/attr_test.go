package vnic

import (
	"bytes"
	"reflect"
	"testing"
)

// TestAttributeLayout checks the places that the description of the attributes names.
func TestAttributeLayout(t *testing.T) {
	p := VportInfo{
		FabricID: 0x0102, VESW: 0x0304, DefPortMask: 0x0506, PKey: 0x0708, McastDLID: 0x090A0B0C,
		RC: 0x0D0E0F10, EthMTU: 0x1112, PortNum: 0x13141516, LinkStatus: 0x17,
		BaseMAC: 0x18191A1B1C1D, ConfigState: 0x1E, OperState: 0x1F, MaxMACs: 0x2021,
		MaxSourceMACs: 0x2223, MACDigest: 0x24252627, EncapSLID: 0x28292A2B, SCUni: 0x2C, VLUni: 0x2D,
		SCMulti: 0x2E, VLMulti: 0x2F, UniGen: 0x3031, MultiGen: 0x3233,
	}
	p.UcastDLID[0], p.UcastDLID[15] = 0x34353637, 0x38393A3B
	p.PCPToSCUni[0], p.PCPToVLUni[0], p.PCPToSCMulti[0], p.PCPToVLMulti[7] = 0x3C, 0x3D, 0x3E, 0x3F
	b := p.Append(nil)
	if len(b) != 280 {
		t.Fatalf("%d bytes", len(b))
	}
	for _, f := range []struct {
		at   int
		want string
	}{
		{0, "\x01\x02"},
		{2, "\x03\x04"},
		{10, "\x05\x06"},
		{14, "\x07\x08"},
		{20, "\x09\x0A\x0B\x0C"},
		{24, "\x34\x35\x36\x37"},
		{84, "\x38\x39\x3A\x3B"},
		{88, "\x0D\x0E\x0F\x10"},
		{148, "\x11\x12"},
		{152, "\x13\x14\x15\x16"},
		{156, "\x17"},
		{160, "\x18\x19\x1A\x1B\x1C\x1D\x1E\x1F\x20\x21\x22\x23\x24\x25\x26\x27"},
		{180, "\x28\x29\x2A\x2B"},
		{184, "\x3C"},
		{192, "\x3D"},
		{200, "\x3E"},
		{215, "\x3F"},
		{216, "\x2C\x2D\x2E\x2F"},
		{268, "\x30\x31\x32\x33"},
	} {
		if got := string(b[f.at : f.at+len(f.want)]); got != f.want {
			t.Errorf("at %d: %x, want %x", f.at, got, f.want)
		}
	}
	back, err := ParseVportInfo(b)
	if err != nil || back != p {
		t.Errorf("%+v, %v", back, err)
	}
	for at, c := range b {
		if c != 0 {
			continue
		}
		b[at] = 1 // reserved, or one of the arrays
		if q, err := ParseVportInfo(b); err == nil && q == p {
			t.Errorf("byte %d is read by nobody", at)
		}
		b[at] = 0
	}
}

// TestCounterLayout: the places of the counters in the attributes.
func TestCounterLayout(t *testing.T) {
	var c Counts
	for i := range c {
		c[i] = uint64(i) + 1000
	}
	s, e := AppendSummary(nil, 0x123, 7, &c), AppendErrors(nil, 0x123, 7, &c)
	if len(s) != 360 || len(e) != 304 {
		t.Fatalf("%d and %d bytes", len(s), len(e))
	}
	for at, want := range map[int]Counter{
		8: TxErrors, 16: RxErrors, 24: TxPackets, 32: RxPackets, 40: TxBytes, 48: RxBytes,
		56: TxUnicast, 64: TxGroup, 72: TxUntagged, 80: TxVLAN, 88: Tx64, 136: Tx1519,
		144: RxUnicast, 176: Rx64, 224: Rx1519,
	} {
		if got := be.Uint64(s[at:]); got != c[want] {
			t.Errorf("summary at %d: %d, want %v", at, got, want)
		}
	}
	for at, want := range map[int]Counter{
		8: TxErrors, 16: RxErrors, 32: TxSMACFilter, 64: TxDLIDZero, 80: TxLogic, 96: TxDropState,
		104: RxBadVESW, 120: RxRunt, 128: RxOversize, 144: RxEthDown, 152: RxDropState, 160: RxLogic,
	} {
		if got := be.Uint64(e[at:]); got != c[want] {
			t.Errorf("errors at %d: %d, want %v", at, got, want)
		}
	}
	if vesw, port, back, err := ParseErrors(e); err != nil || vesw != 0x123 || port != 7 ||
		back[RxRunt] != c[RxRunt] {
		t.Errorf("switch %#x, port %d, %v", vesw, port, err)
	}
}

// TestSizeClasses: bytes and classes include the FCS.
func TestSizeClasses(t *testing.T) {
	for bytes, want := range map[int]Counter{
		42: Tx64, 60: Tx64, 61: Tx65, 123: Tx65, 124: Tx128, 251: Tx128, 252: Tx256, 508: Tx512,
		1020: Tx1024, 1514: Tx1024, 1515: Tx1519, 9014: Tx1519,
	} {
		var c Counts
		c.CountTx(&FrameInfo{Dst: Broadcast, Tagged: true}, bytes, 3)
		if c[want] != 3 || c[TxBytes] != 3*uint64(max(bytes, 60)+4) || c[TxGroup] != 3 || c[TxVLAN] != 3 {
			t.Errorf("frame of %d: %v is %d, bytes %d", bytes, want, c[want], c[TxBytes])
		}
	}
}

func FuzzMessage(f *testing.F) {
	for _, m := range []Message{
		{Method: MethodGet, Attr: AttrVportInfo, Modifier: 3},
		{Method: MethodSet, Attr: AttrMACEntries, Modifier: 3 | ModMore, Data: make([]byte, 8)},
		{Method: MethodTrap, Attr: AttrVportInfo, Data: make([]byte, 16)},
	} {
		f.Add(m.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMessage(b)
		if err == nil && !bytes.Equal(m.Append(nil), b) {
			t.Fatalf("%x is not canonical", b)
		}
	})
}

// FuzzAttributes: whatever is accepted as an attribute is what its value is written as.
func FuzzAttributes(f *testing.F) {
	info := PowerOn()
	f.Add(uint8(0), info.Append(nil))
	f.Add(uint8(1), (&MACEntries{Num: 1, Rows: []MACEntry{{MAC: 1, DLID: 2}}}).Append(nil))
	f.Add(uint8(2), (&MACList{Num: 1, Total: 1, MACs: []MAC{5}}).Append(nil))
	f.Add(uint8(3), (&Trap{Opcode: TrapLink}).Append(nil))
	f.Add(uint8(4), (&Options{Learning: true, GroupRate: 5}).Append(nil))
	f.Add(uint8(5), AppendMembers(nil, []uint32{1, 2}))
	f.Add(uint8(6), (&Registration{
		Host: "a", Manager: "m", Ways: Ways{
			Receive: [][]byte{{1}}, Send: [][]byte{{2}},
			Module: []byte{3},
		},
	}).Append(nil))
	f.Add(uint8(7), (&Lease{Manager: "m", Ms: 5, LID: 1}).Append(nil))
	f.Add(uint8(8), lidMessages([]LIDEntry{{LID: 1, Ways: Ways{Module: []byte("x")}}})[0])
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		var again []byte
		var err error
		switch kind % 9 {
		case 0:
			var v VportInfo
			v, err = ParseVportInfo(b)
			again = v.Append(nil)
		case 1:
			var v MACEntries
			v, err = ParseMACEntries(b)
			again = v.Append(nil)
		case 2:
			var v MACList
			v, err = ParseMACList(b)
			again = v.Append(nil)
		case 3:
			var v Trap
			v, err = ParseTrap(b)
			again = v.Append(nil)
		case 4:
			var v Options
			v, err = ParseOptions(b)
			again = v.Append(nil)
		case 5:
			var v []uint32
			v, err = ParseMembers(b)
			again = AppendMembers(nil, v)
		case 6:
			var v Registration
			v, err = ParseRegistration(b)
			again = v.Append(nil)
		case 7:
			var v Lease
			v, err = ParseLease(b)
			again = v.Append(nil)
		default:
			var v []LIDEntry
			v, err = ParseLIDs(b)
			for i := range v {
				again = appendLID(again, &v[i])
			}
		}
		if err == nil && !bytes.Equal(again, b) {
			t.Fatalf("kind %d: %x is not canonical: %x", kind%9, b, again)
		}
	})
}

func TestMACNotation(t *testing.T) {
	m, err := ParseMAC("02:0a:Bc:01:02:03")
	if err != nil || m != 0x020ABC010203 || m.String() != "02:0a:bc:01:02:03" {
		t.Errorf("%v, %v", m, err)
	}
	for _, bad := range []string{
		"", "02:00:00:00:00", "02:00:00:00:00:001", "2:0:0:0:0:1:",
		"gg:00:00:00:00:00",
	} {
		if m, err := ParseMAC(bad); err == nil {
			t.Errorf("%q is %v", bad, m)
		}
	}
	if l := MACFor(0xABC, 0x123456).LID(); l != 0x123456 {
		t.Errorf("LID %#x", l)
	}
	if got := reflect.TypeFor[Counts]().Len(); got != len(Counters()) {
		t.Errorf("%d counters", got)
	}
	seen := map[string]bool{}
	for _, c := range Counters() {
		if c.String() == "" || seen[c.String()] {
			t.Errorf("counter %d is named %q", c, c)
		}
		seen[c.String()] = true
	}
}
