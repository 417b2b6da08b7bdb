package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"gobtl/fabric/sim"
	"gobtl/internal/testenv"
)

// seen is a datagram as the network told of it.
type seen struct {
	at       int64
	iface    int
	from, to sim.Port
	data     []byte
}

// capture writes the story's pcapng.
func capture(tb testing.TB) (file []byte, all []seen) {
	tb.Helper()
	var out bytes.Buffer
	p, err := NewPcap(&out)
	if err != nil {
		tb.Fatal(err)
	}
	tell(tb, func(nw *sim.Network, e *sim.Event) {
		p.Event(nw, e)
		if i := interfaceOf(e.Kind); i != ifaceNone {
			all = append(all, seen{int64(e.At), i, e.From, e.To, bytes.Clone(e.Data)})
		}
	})
	if err := p.Flush(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes(), all
}

// TestPcap: what is read back is what happened, with right checksums.
func TestPcap(t *testing.T) {
	file, want := capture(t)
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	var kinds [ifaceMade + 1]int
	n := 0
	for ; ; n++ {
		data, info, opts, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n == len(want) {
			t.Fatalf("more than %d packets", n)
		}
		w := want[n]
		kinds[w.iface]++
		if info.Timestamp.UnixNano() != w.at || info.InterfaceIndex != w.iface {
			t.Fatalf("packet %d: at %v on %d, want %d on %d", n, info.Timestamp.UnixNano(),
				info.InterfaceIndex, w.at, w.iface)
		}
		if (len(opts.Comments) > 0) != (w.iface > ifaceDelivered) {
			t.Errorf("packet %d on %d: comments %q", n, w.iface, opts.Comments)
		}
		checkFrame(t, data, &w)
	}
	if n != len(want) {
		t.Errorf("%d packets, want %d", n, len(want))
	}
	for i, name := range Interfaces() {
		intf, err := r.Interface(i)
		if err != nil || intf.Name != name || kinds[i] == 0 {
			t.Errorf("interface %d: %q (%v), want %q; %d packets on it", i, intf.Name, err, name, kinds[i])
		}
	}
}

func checkFrame(t *testing.T, frame []byte, w *seen) {
	t.Helper()
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	ip, _ := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
	udp, _ := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
	if ip == nil || udp == nil || p.ErrorLayer() != nil {
		t.Fatalf("no UDP: %v", p)
	}
	want := fmt.Sprintf("192.0.2.%d:%d>192.0.2.%d:%d", w.from.Node+1, UDPPort+w.from.Index,
		w.to.Node+1, UDPPort+w.to.Index)
	got := fmt.Sprintf("%s:%d>%s:%d", ip.SrcIP, udp.SrcPort, ip.DstIP, udp.DstPort)
	if got != want || !bytes.Equal(udp.Payload, w.data) {
		t.Errorf("%s with %x, want %s with %x", got, udp.Payload, want, w.data)
	}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	if bad, mismatches := p.VerifyChecksums(); bad != nil || len(mismatches) > 0 {
		t.Errorf("checksums: %v, %v", bad, mismatches)
	}
}

// TestTshark: Wireshark reads it, and finds nothing malformed or with a wrong checksum.
func TestTshark(t *testing.T) {
	tshark := testenv.Need(t, "tshark", "tshark")
	file, want := capture(t)
	path := filepath.Join(t.TempDir(), "story.pcapng")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), tshark, "-r", path, "-n",
		"-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-T", "fields",
		"-e", "frame.interface_name", "-e", "ip.src", "-e", "udp.dstport", "-e", "udp.length",
		"-e", "ip.checksum.status", "-e", "udp.checksum.status", "-e", "_ws.malformed").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d", len(lines), len(want))
	}
	for i, w := range want {
		line := strings.Join(strings.Fields(lines[i]), " ") // 1: a good checksum
		if text := fmt.Sprintf("%s 192.0.2.%d %d %d 1 1", Interfaces()[w.iface], w.from.Node+1,
			UDPPort+w.to.Index, 8+len(w.data)); line != text {
			t.Errorf("packet %d: %q, want %q", i+1, line, text)
		}
	}
}
