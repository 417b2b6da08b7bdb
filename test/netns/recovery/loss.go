//go:build linux

package recovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gobtl/test/netns"
)

// streamBytes is the message size of a stream, and pingBytes that of a ping-pong.
const streamBytes, pingBytes = 1 << 20, 8

// cable joins two hosts. Unless trains is set, coalesced packets are split before the cable, so
// that a filter drops single packets as on a wire.
func (b *bench) cable(trains bool) (netns.Port, netns.Port) {
	lab := netns.New(b.tb)
	lab.Need("nft", "nftables")
	a, z := lab.Cable(lab.Host("sender"), lab.Host("receiver"), mtuBytes)
	if !trains {
		cut(a, z)
	}
	return a, z
}

const mtuBytes = 1500

func cut(ports ...netns.Port) {
	for _, p := range ports {
		p.Feature("tx-udp-segmentation", false)
		p.Feature("tx-tcp-segmentation", false)
	}
}

// lose drops a share of the packets that each port receives, until restore is called. The filter is
// also installed for a share of 0, because it costs time for each packet.
func lose(share float64, ports ...netns.Port) (restore func()) {
	const million = 1_000_000
	for _, p := range ports {
		p.Host.Filter("input", fmt.Sprintf(
			"iifname %q meta l4proto { tcp, udp } numgen random mod %d < %d counter drop", p.Dev,
			million, int(share*million)))
	}
	return func() {
		for _, p := range ports {
			p.Host.Unfilter()
		}
	}
}

func percent(share float64) string {
	return strconv.FormatFloat(100*share, 'g', 4, 64) + " %"
}

// trainsLoss is the share of loss at which the loss of coalesced packets is measured.
const trainsLoss = 0.01

func (b *bench) loss() (points []point) {
	if slices.ContainsFunc(b.systems, func(s System) bool { return s.Kind == "tcp" }) {
		netns.New(b.tb).Need("iperf3", "iperf3")
	}
	from, to := b.cable(false)
	trainFrom, trainTo := b.cable(true)
	// Systems that are compared with each other are measured directly after each other.
	for _, sys := range b.systems {
		if sys.ID == "fixed" {
			continue
		}
		add := func(setting string, share float64, from, to netns.Port,
			measure func(*Sample, System, netns.Port, netns.Port) error,
		) {
			points = append(points, point{setting, sys.ID, func(s *Sample) error {
				defer lose(share, from, to)()
				return measure(s, sys, from, to)
			}})
		}
		for _, share := range b.Losses {
			add(percent(share), share, from, to, b.stream)
		}
		add("no loss, offloads", 0, trainFrom, trainTo, b.stream)
		add(percent(trainsLoss)+" of trains", trainsLoss, trainFrom, trainTo, b.stream)
		for _, share := range b.Losses {
			add(percent(share), share, from, to, b.pingPong)
		}
	}
	return points
}

// stream measures goodput, in MB/s.
func (b *bench) stream(s *Sample, sys System, from, to netns.Port) error {
	if sys.Kind == "tcp" {
		return b.iperf(s, from, to)
	}
	servers, clients := apart(b.serve(sys, to, false), b.send(sys, from, 0, "stream", streamBytes))
	o, err := play(servers, clients, b.Each*5/4+slack)
	if err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	c, r := o.clients[0], o.servers[0]
	s.Values["goodput_MBps"] = between(r.Ticks, 0, c.Start, c.End) / float64(c.End-c.Start) * 1e3
	s.Values["overruns"] = float64(r.Counters["overruns"])
	if sys.Kind == "btl" {
		s.Values["resent_pct"] = resent(c)
	}
	s.note("stream sender", c)
	s.note("stream receiver", r)
	return nil
}

// pingPong measures round trips, in microseconds.
func (b *bench) pingPong(s *Sample, sys System, from, to netns.Port) error {
	servers, clients := apart(b.serve(sys, to, true), b.send(sys, from, 0, "pingpong", pingBytes))
	o, err := play(servers, clients, b.Each*5/4+slack)
	if err != nil {
		return fmt.Errorf("ping-pong: %w", err)
	}
	c := o.clients[0]
	if c.Latency == nil {
		return errors.New("ping-pong: no round trips")
	}
	s.Values["round_trips"] = float64(c.Latency.Count)
	s.Values["p50_us"], s.Values["p99_us"] = c.Latency.P50, c.Latency.P99
	s.Values["p999_us"], s.Values["max_us"] = c.Latency.P999, c.Latency.MaxU
	s.note("ping-pong client", c)
	s.note("ping-pong server", o.servers[0])
	return nil
}

// iperf measures TCP's goodput with iperf3.
func (b *bench) iperf(s *Sample, from, to netns.Port) error {
	server := to.Host.Command("iperf3", "-s", "-1", "-B", to.V4.String())
	if err := server.Start(); err != nil {
		return err
	}
	defer func() {
		_ = server.Process.Kill() // It may have ended by itself.
		_ = server.Wait()
	}()
	if err := listening(server.Process.Pid, 5201); err != nil {
		return err
	}
	seconds := max(1, int(b.Each.Round(time.Second)/time.Second))
	client := from.Host.Command("iperf3", "-c", to.V4.String(), "-J", "-l", "1M", "-C", b.Congestion,
		"-t", strconv.Itoa(seconds))
	timer := time.AfterFunc(time.Duration(seconds)*time.Second+slack, func() {
		_ = client.Process.Kill() // It may have ended by itself.
	})
	defer timer.Stop()
	out, err := client.Output()
	var report struct {
		Error string
		End   struct {
			Received struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
			Sent struct {
				Bytes   float64
				Retries float64 `json:"retransmits"`
			} `json:"sum_sent"`
		}
	}
	if e := json.Unmarshal(out, &report); e != nil {
		return fmt.Errorf("iperf3: %w", errors.Join(err, e))
	}
	if report.Error != "" {
		return fmt.Errorf("iperf3: %s", report.Error)
	}
	s.Values["goodput_MBps"] = report.End.Received.Rate / 8e6
	s.Values["resent_pct"] = 100 * report.End.Sent.Retries / max(1, report.End.Sent.Bytes/tcpSegment)
	return nil
}

// tcpSegment is the payload of a full TCP segment with timestamps.
const tcpSegment = mtuBytes - 52

// listening waits until a process listens on a TCP port in its namespace.
func listening(pid, port int) error {
	suffix := fmt.Sprintf(":%04X", port)
	for begin := time.Now(); time.Since(begin) < connectLimit; time.Sleep(5 * time.Millisecond) {
		for _, file := range []string{"tcp", "tcp6"} {
			table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, file))
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(table)) {
				// The line has the form "number local remote state ...", where state 0A is LISTEN.
				f := strings.Fields(line)
				if len(f) > 3 && strings.HasSuffix(f[1], suffix) && f[3] == "0A" {
					return nil
				}
			}
		}
	}
	return fmt.Errorf("nobody listens at port %d", port)
}
