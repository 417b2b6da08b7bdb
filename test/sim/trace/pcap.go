package trace

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"gobtl/fabric/sim"
)

// Pcap writes the datagrams of a network to a pcapng file as Ethernet, IPv4 and UDP, where node i
// has the address 192.0.2.(i+1), endpoint j has the port UDPPort+j, and time 0 is the start of
// 1970. Each datagram is written when it is sent, and again with a comment for each later event, on
// the interfaces named in Interfaces.
type Pcap struct {
	w      *pcapgo.NgWriter
	frames gopacket.SerializeBuffer
	err    error
}

// UDPPort is the port of a node's first endpoint, for which Wireshark knows no protocol.
const UDPPort = 47010

// Interfaces names the interfaces of the capture, for datagrams as posted, datagrams as received,
// lost datagrams, and datagrams that no node posted (junk, replays, duplicates).
func Interfaces() []string { return []string{"sent", "delivered", "lost", "made"} }

// The constants below are indices of Interfaces.
const (
	ifaceSent = iota
	ifaceDelivered
	ifaceLost
	ifaceMade
	ifaceNone = -1
)

// NewPcap writes the header of a capture to w.
func NewPcap(w io.Writer) (*Pcap, error) {
	opts := pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: "gobtl simulator"}}
	p := &Pcap{frames: gopacket.NewSerializeBuffer()}
	for i, name := range Interfaces() {
		intf := pcapgo.NgInterface{
			Name: name, LinkType: layers.LinkTypeEthernet, TimestampResolution: 9,
		}
		var err error
		if i == 0 {
			p.w, err = pcapgo.NewNgWriterInterface(w, intf, opts)
		} else {
			_, err = p.w.AddInterface(intf)
		}
		if err != nil {
			return nil, fmt.Errorf("trace: pcapng: %w", err)
		}
	}
	return p, nil
}

// Event writes the datagram of an event, if the event has one. Event has the signature of
// sim.Config.Observe.
func (p *Pcap) Event(_ *sim.Network, e *sim.Event) {
	iface := interfaceOf(e.Kind)
	if p.err != nil || iface == ifaceNone {
		return
	}
	frame, err := p.frame(e)
	if err != nil {
		p.err = fmt.Errorf("trace: datagram %d of %d bytes: %w", e.ID, len(e.Data), err)
		return
	}
	info := gopacket.CaptureInfo{
		Timestamp: time.Unix(0, int64(e.At)), CaptureLength: len(frame), Length: len(frame),
		InterfaceIndex: iface,
	}
	id := e.ID
	opts := pcapgo.NgPacketOptions{PacketID: &id}
	if iface > ifaceDelivered {
		opts.Comments = []string{fmt.Sprintf("%s, datagram %d", e.Kind, e.ID)}
	}
	p.err = p.w.WritePacketWithOptions(info, frame, opts)
}

// frame returns the Ethernet frame of a datagram, which is valid until the next call.
func (p *Pcap) frame(e *sim.Event) ([]byte, error) {
	ip := &layers.IPv4{
		Version: 4, TTL: 64, Id: uint16(e.ID), Protocol: layers.IPProtocolUDP,
		SrcIP: address(e.From), DstIP: address(e.To),
	}
	udp := &layers.UDP{
		SrcPort: layers.UDPPort(UDPPort + e.From.Index), DstPort: layers.UDPPort(UDPPort + e.To.Index),
	}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		return nil, err
	}
	ether := &layers.Ethernet{
		SrcMAC: hardware(e.From), DstMAC: hardware(e.To), EthernetType: layers.EthernetTypeIPv4,
	}
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	err := gopacket.SerializeLayers(p.frames, opts, ether, ip, udp, gopacket.Payload(e.Data))
	return p.frames.Bytes(), err
}

// Flush writes the buffered data, and returns the first error of all writes.
func (p *Pcap) Flush() error {
	if p.err == nil {
		p.err = p.w.Flush()
	}
	return p.err
}

func address(p sim.Port) net.IP { return net.IPv4(192, 0, 2, byte(p.Node+1)).To4() }

func hardware(p sim.Port) net.HardwareAddr {
	return net.HardwareAddr{2, 0, 0, 0, byte((p.Node + 1) >> 8), byte(p.Node + 1)}
}

// interfaceOf returns the interface on which the datagram of an event is written.
func interfaceOf(k sim.Kind) int {
	switch k {
	case sim.KindSent:
		return ifaceSent
	case sim.KindDelivered:
		return ifaceDelivered
	case sim.KindLost, sim.KindBurstLost, sim.KindChecksum, sim.KindCut, sim.KindTooLong,
		sim.KindTailDrop, sim.KindQueueFull, sim.KindUnreachable, sim.KindFiltered,
		sim.KindSendError, sim.KindRecvError:
		return ifaceLost
	case sim.KindDuplicated, sim.KindBitFlip, sim.KindTruncated, sim.KindJunk, sim.KindReplayed,
		sim.KindInjected:
		return ifaceMade
	default:
		return ifaceNone
	}
}
