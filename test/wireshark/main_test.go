package wireshark

import (
	"bytes"
	"encoding/hex"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"gobtl/internal/testenv"
)

// rewrite makes the golden tests write what they would compare.
var rewrite = flag.Bool("rewrite", false, "write the golden files instead of checking them")

const (
	dissector   = "../../docs/wireshark/gobtl.lua"
	exampleFile = "../../frag/testdata/example.txt"
	goldenHex   = "../../frag/testdata/golden.hex"
)

// tshark runs tshark with the dissector and returns what it prints. An error in loading it fails
// the test.
func tshark(t *testing.T, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil {
		testenv.Missing(t, "needs tshark, Debian's package of that name: %v", err)
	}
	lua, err := filepath.Abs(dissector)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, append(args, "-n", "-X", "lua_script:"+lua)...)
	home := t.TempDir() // this machine's preferences must not count
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "TZ=UTC", "LC_ALL=C.UTF-8")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("tshark %q: %v\n%s", args, err, stderr.String())
	}
	if text := stderr.String(); strings.Contains(text, "Lua") || strings.Contains(text, "gobtl") {
		t.Fatalf("tshark %q complains:\n%s", args, text)
	}
	return stdout.String()
}

// rows is tshark's table of fields: a row for each packet, a column for each field. Several values
// of a field are separated by commas. A Lua error in a packet fails the test.
func rows(t *testing.T, file string, fields []string, args ...string) [][]string {
	t.Helper()
	fields = append([]string{"_ws.lua.error"}, fields...)
	args = append([]string{"-r", file, "-T", "fields", "-E", "separator=/t"}, args...)
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	var out [][]string
	for line := range strings.Lines(tshark(t, args...)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(row) != len(fields) {
			t.Fatalf("%d columns, want %d: %q", len(row), len(fields), line)
		}
		if row[0] != "" {
			t.Fatalf("packet %d: Lua error %q", len(out)+1, row[0])
		}
		out = append(out, row[1:])
	}
	return out
}

// datagram is a packet of a capture that a test makes.
type datagram struct {
	from, to uint16 // ports
	payload  []byte
	cutBytes int // left out by the capture
	host     int // of the sender, 0 to 65535
}

// writeCapture writes a pcapng file of UDP datagrams, a millisecond apart.
func writeCapture(t *testing.T, list []datagram) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "capture.pcapng")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := pcapgo.NewNgWriter(f, layers.LinkTypeRaw)
	if err != nil {
		t.Fatal(err)
	}
	host := net.IPv4(10, 0, 0, 1)
	at := time.Unix(1_700_000_000, 0)
	for _, d := range list {
		ip := &layers.IPv4{
			Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP,
			SrcIP: net.IPv4(10, 1, byte(d.host>>8), byte(d.host)), DstIP: host,
		}
		udp := &layers.UDP{SrcPort: layers.UDPPort(d.from), DstPort: layers.UDPPort(d.to)}
		if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
			t.Fatal(err)
		}
		b := gopacket.NewSerializeBuffer()
		options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
		if err := gopacket.SerializeLayers(b, options, ip, udp, gopacket.Payload(d.payload)); err != nil {
			t.Fatal(err)
		}
		pkt := b.Bytes()
		kept := pkt[:len(pkt)-d.cutBytes]
		info := gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(kept), Length: len(pkt)}
		if err := w.WritePacket(info, kept); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Millisecond)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return file
}

// vector is a packet with its name.
type vector struct {
	name string
	pkt  []byte
}

// vectors are the packets of frag's golden file.
func vectors(t *testing.T) []vector {
	t.Helper()
	text, err := os.ReadFile(goldenHex)
	if err != nil {
		t.Fatal(err)
	}
	var list []vector
	for line := range strings.Lines(string(text)) {
		switch {
		case line[0] == '#':
		case line[0] != ' ':
			list = append(list, vector{name: strings.TrimSpace(line)})
		default:
			b, err := hex.DecodeString(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			v := &list[len(list)-1]
			v.pkt = append(v.pkt, b...)
		}
	}
	last := len(list) - 1
	if last < 10 || list[last].name != "name" {
		t.Fatalf("%s has no vectors, or does not end with the module's name", goldenHex)
	}
	return list[:last]
}

// golden compares text with a file of testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text == string(want) {
		return
	}
	got, wanted := strings.Split(text, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(got), len(wanted)) {
		if got[i] != wanted[i] {
			t.Fatalf("%s:%d\n got %s\nwant %s", file, i+1, got[i], wanted[i])
		}
	}
	t.Fatalf("%s has %d lines, got %d", file, len(wanted), len(got))
}
