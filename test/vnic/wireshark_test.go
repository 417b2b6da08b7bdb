//go:build linux

package vnic

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"gobtl/vnic"
)

// TestDissector shows packets to tshark with the dissector: each field must be what was
// encapsulated, also where several packets stand in one datagram; what is no packet is left alone.
func TestDissector(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("needs tshark")
		}
		t.Skip("needs tshark, Debian's package of that name")
	}
	a := vnic.Header{
		SLID: 0xABCDEF, DLID: 0x123456, PKey: 0x8001, Entropy: 0xC35A, SC: 31, RC: 7, VESW: 0xABC,
		FECN: true,
	}
	b := vnic.Header{SLID: 1, DLID: vnic.GroupLID(257), Entropy: 7, SC: 3, VESW: 257, BECN: true}
	src := vnic.MAC(0x020000000001)
	one, _ := a.Append(nil, rawFrame(0x020000000002, src, 0x2064, "first"))
	two, _ := b.Append(one, rawFrame(vnic.Broadcast, src, -1, "second"))
	broken := append([]byte(nil), one...)
	broken[14] = 1 // a reserved byte
	file := filepath.Join(t.TempDir(), "packets.pcapng")
	writePackets(t, file, one, two, broken)
	lua, err := filepath.Abs("../../docs/wireshark/gobtl_vnic.lua")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-n", "-r", file, "-X", "lua_script:" + lua, "-T", "fields"}
	fields := []string{
		"slid", "dlid", "length", "sc", "rc", "pkey", "entropy", "fecn", "becn", "switch", "pad",
		"joined",
	}
	for _, f := range fields {
		args = append(args, "-e", "gobtl_vnic."+f)
	}
	cmd := exec.Command(tshark, append(args, "-e", "eth.src", "-e", "vlan.id")...)
	home := t.TempDir() // this machine's preferences must not count
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "LC_ALL=C.UTF-8")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark: %v\n%s", err, out)
	}
	bit := map[bool]string{true: "1", false: "0"}
	row := func(hs ...vnic.Header) string {
		cols := make([][]string, 11)
		for i, h := range hs {
			size := len(one)
			if i > 0 {
				size = len(two) - len(one)
			}
			pad := vnic.PadBytes([]int{14 + 4 + 5 + 100, 14 + 6 + 100}[i])
			for k, v := range []string{
				fmt.Sprint(h.SLID), fmt.Sprint(h.DLID), fmt.Sprint(size), fmt.Sprint(h.SC),
				fmt.Sprint(h.RC), fmt.Sprintf("0x%04x", h.PKey), fmt.Sprintf("0x%04x", h.Entropy),
				bit[h.FECN], bit[h.BECN],
				fmt.Sprint(h.VESW), fmt.Sprint(pad),
			} {
				cols[k] = append(cols[k], v)
			}
		}
		var text []string
		for _, c := range cols {
			text = append(text, strings.Join(c, ","))
		}
		return strings.Join(text, "\t")
	}
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d rows:\n%s", len(lines), out)
	}
	if !strings.HasPrefix(lines[0], row(a)+"\t\t") || !strings.HasSuffix(lines[0], "\t100") ||
		!strings.Contains(lines[0], src.String()) {
		t.Errorf("one packet:\n got %q\nwant %q", lines[0], row(a))
	}
	if !strings.HasPrefix(lines[1], row(a, b)+"\t") || strings.HasPrefix(lines[1], row(a, b)+"\t\t") {
		t.Errorf("two packets:\n got %q\nwant %q", lines[1], row(a, b))
	}
	if strings.Contains(lines[2], "11259375") {
		t.Errorf("what is no packet is dissected: %q", lines[2])
	}
}

// writePackets writes UDP datagrams with these payloads to a pcapng file.
func writePackets(t *testing.T, name string, payloads ...[]byte) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := pcapgo.NewNgWriter(f, layers.LinkTypeEthernet)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range payloads {
		ip := &layers.IPv4{
			Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: []byte{10, 0, 0, 1},
			DstIP: []byte{10, 0, 0, 2},
		}
		udp := &layers.UDP{SrcPort: 40001, DstPort: 40002}
		if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
			t.Fatal(err)
		}
		b := gopacket.NewSerializeBuffer()
		err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{
			FixLengths: true, ComputeChecksums: true,
		}, &layers.Ethernet{
			SrcMAC: []byte{2, 0, 0, 0, 0, 9}, DstMAC: []byte{2, 0, 0, 0, 0, 8},
			EthernetType: layers.EthernetTypeIPv4,
		}, ip, udp, gopacket.Payload(p))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WritePacket(gopacket.CaptureInfo{
			Timestamp: time.Unix(1, 0), CaptureLength: len(b.Bytes()), Length: len(b.Bytes()),
		}, b.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}
