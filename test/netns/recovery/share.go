//go:build linux

package recovery

import (
	"encoding/json"
	"fmt"
	"strconv"

	"gobtl/frag"
	"gobtl/test/netns"
)

// The constants below describe the bottleneck.
const (
	linkBitsPerS = 100e6
	linkRate     = "100mbit"
	// linkBurstBytes is the size of the token bucket, which holds three packets so that a late
	// timer does not slow down the link.
	linkBurstBytes = 5000
	// shareBytes is the size of the messages, which is small compared with the bytes of the whole
	// measurement.
	shareBytes = 64 << 10
)

// payloadPart is the payload's part of a full frame as tc counts it.
func payloadPart(sys System) float64 {
	const ethernet, udp4 = 14, 28
	payload := float64(tcpSegment)
	if sys.Kind == "btl" {
		payload = mtuBytes - udp4 - float64(frag.HeaderBytes(frag.KindChunk, 0))
	}
	return payload / (mtuBytes + ethernet)
}

// narrow has two senders, a router, and a receiver behind the bottleneck.
type narrow struct {
	from [2]netns.Port
	to   netns.Port
	exit netns.Port // the router's, towards the receiver
}

func (b *bench) narrow() (n narrow) {
	lab := netns.New(b.tb)
	lab.Need("tc", "iproute2")
	router := lab.Host("router")
	router.Sysctl("net/ipv4/ip_forward", "1")
	for i := range n.from {
		var side netns.Port
		n.from[i], side = lab.Cable(lab.Host(fmt.Sprintf("sender%d", i)), router, mtuBytes)
		n.from[i].Host.IP("route add default via " + side.V4.String())
		cut(n.from[i])
	}
	n.to, n.exit = lab.Cable(lab.Host("receiver"), router, mtuBytes)
	n.to.Host.IP("route add default via " + n.exit.V4.String())
	cut(n.to)
	return n
}

// queueCounts are counters of the bottleneck's queue.
type queueCounts struct{ Bytes, Packets, Drops float64 }

func (n narrow) counts() (queueCounts, error) {
	out, err := n.exit.Host.Command("tc", "-s", "-j", "qdisc", "show", "dev", n.exit.Dev).Output()
	if err != nil {
		return queueCounts{}, err
	}
	var all []queueCounts
	if err := json.Unmarshal(out, &all); err != nil || len(all) == 0 {
		return queueCounts{}, fmt.Errorf("tc: %s: %w", out, err)
	}
	return all[0], nil
}

func queueName(bytes int) string { return strconv.Itoa(bytes/1000) + " KB" }

func (b *bench) share() (points []point) {
	n := b.narrow()
	tcp := System{ID: "tcp", Kind: "tcp"}
	for _, queue := range b.Queues {
		add := func(system, what string, flows ...System) {
			setting := queueName(queue) + ", " + what
			points = append(points, point{setting, system, func(s *Sample) error {
				return b.bottleneck(s, n, queue, flows)
			}})
		}
		for _, sys := range b.systems {
			if sys.ID == "fixed" || sys.Kind == "rxd" {
				continue
			}
			add(sys.ID, "one flow", sys)
			add(sys.ID, "two flows", sys, sys)
			if sys.Kind == "btl" {
				add(sys.ID, "beside TCP", sys, tcp)
			}
		}
	}
	return points
}

func (b *bench) bottleneck(s *Sample, n narrow, queueBytes int, flows []System) error {
	n.exit.Slow(linkRate, linkBurstBytes, queueBytes)
	servers, clients := make([]party, 0, len(flows)), make([]party, 0, len(flows))
	for i, sys := range flows {
		servers = append(servers, b.serve(sys, n.to, false))
		c := b.send(sys, n.from[i], i, "stream", shareBytes)
		c.sp.Warm, c.sp.Each = b.Each*3/2, b.Each*3/2
		clients = append(clients, c)
	}
	before, err := n.counts()
	if err != nil {
		return err
	}
	o, err := play(servers, clients, 3*b.Each+slack)
	if err != nil {
		return err
	}
	after, err := n.counts()
	if err != nil {
		return err
	}
	// The values below cover the time in which all flows were measured.
	begin, end := o.clients[0].Start, o.clients[0].End
	for _, c := range o.clients {
		begin, end = max(begin, c.Start), min(end, c.End)
	}
	rates, use := make([]float64, len(flows)), 0.0
	for i, sys := range flows {
		rates[i] = between(o.servers[i].Ticks, 0, begin, end) / float64(end-begin) * 8e9
		use += rates[i] / payloadPart(sys) / linkBitsPerS
		s.note(fmt.Sprintf("sender %d, %s", i+1, sys.ID), o.clients[i])
		s.note(fmt.Sprintf("receiver %d, %s", i+1, sys.ID), o.servers[i])
	}
	s.Values["use_pct"] = 100 * use
	s.Values["goodput_Mbps"] = rates[0] / 1e6
	s.Values["resent_pct"] = resent(o.clients[0])
	s.Values["dropped_pct"] = 100 * (after.Drops - before.Drops) /
		max(1, after.Packets-before.Packets+after.Drops-before.Drops)
	if len(flows) == 2 {
		s.Values["goodput2_Mbps"] = rates[1] / 1e6
		s.Values["jain"] = jain(rates)
		s.Values["share2_pct"] = 100 * rates[1] / max(1, rates[0]+rates[1])
		s.Values["resent2_pct"] = resent(o.clients[1])
	}
	return nil
}
