package systems

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"time"
)

// iperf measures the kernel's own TCP or UDP with iperf3, which supports only streams.
type iperf struct {
	about Info
	udp   bool
	costs costs
}

func newIperf(udp bool) *iperf {
	i := &iperf{udp: udp, costs: costs{perMessage: time.Microsecond, bytesPerSec: 5e9}}
	i.about = Info{
		ID: "iperf3-tcp", Label: "iperf3 tcp", Kind: KindPeer, Package: "iperf3",
		Command: "iperf3 -c 127.0.0.1 -l 1M -J",
		Note:    "a byte stream, without messages: the size is that of a write",
	}
	if udp {
		i.costs.perMessage = 3 * time.Microsecond
		i.about.ID, i.about.Label, i.about.Kind = "iperf3-udp", "iperf3 udp", KindReference
		i.about.Command = "iperf3 -c 127.0.0.1 -u -b 0 -l 8K -J"
		i.about.Note = "what arrived; the rest is lost"
	}
	return i
}

// iperfVersion finds the version in the output of iperf3.
const iperfVersion = `iperf (\S+)`

func (i *iperf) Info() *Info { return &i.about }

func (i *iperf) Probe(ctx context.Context, h *Host) (string, error) {
	if _, err := exec.LookPath("iperf3"); err != nil {
		return "", &MissingError{"iperf3 is not installed"}
	}
	out, err := h.run(ctx, anyCPU, command{name: "iperf3", args: []string{"--version"}})
	if err != nil {
		return "", err
	}
	return firstMatch(iperfVersion, out), nil
}

// The constants below are limits of iperf3.
const (
	iperfWriteBytesMax    = 1 << 20
	iperfDatagramBytesMax = 65507
)

func (i *iperf) Cannot(p Point) string {
	switch {
	case p.Workload != Stream:
		return "iperf3 measures only streams"
	case i.udp && p.SizeBytes > iperfDatagramBytesMax:
		return fmt.Sprintf("larger than one datagram (%d bytes)", iperfDatagramBytesMax)
	case p.SizeBytes > iperfWriteBytesMax:
		return "larger than iperf3 writes at once (1M)"
	}
	return ""
}

func (i *iperf) Measure(ctx context.Context, h *Host, points []Point) ([]Sample, error) {
	var samples []Sample
	for _, point := range points {
		s, err := i.once(ctx, h, point)
		if err != nil {
			return samples, fmt.Errorf("%v: %w", point, err)
		}
		samples = append(samples, s)
	}
	return samples, nil
}

func (i *iperf) once(ctx context.Context, h *Host, point Point) (Sample, error) {
	s := Sample{Point: point}
	port, err := freePort()
	if err != nil {
		return s, err
	}
	at := []string{"-p", strconv.Itoa(port)}
	server := command{name: "iperf3", args: append([]string{"-s", "-1", "-B", "127.0.0.1"}, at...)}
	blocks := i.costs.count(point.SizeBytes, h.each)
	args := []string{
		"-c", "127.0.0.1", "-J", "-l", strconv.Itoa(point.SizeBytes),
		"-n", strconv.Itoa(blocks * point.SizeBytes),
	}
	if i.udp {
		args = append(args, "-u", "-b", "0")
	}
	out, err := h.runPair(ctx, server, command{name: "iperf3", args: append(args, at...)}, port)
	if err != nil {
		if said := iperfError(out); said != "" {
			err = errors.New(said)
		}
		return s, err
	}
	s.Value, s.LostRatio, err = parseIperf(out, i.udp)
	return s, err
}

// iperfDocument is the used part of iperf3's report. In a test over UDP, "sum" has the receiver's
// count of losses, and iperf3 3.12 also has it in "sum_received".
type iperfDocument struct {
	Error string `json:"error"`
	End   struct {
		Received struct {
			BitsPerSecond float64 `json:"bits_per_second"`
		} `json:"sum_received"`
		Sum struct {
			BitsPerSecond float64 `json:"bits_per_second"`
			LostPercent   float64 `json:"lost_percent"`
		} `json:"sum"`
	} `json:"end"`
}

// iperfError is the error text in a report of iperf3.
func iperfError(out []byte) string {
	var doc iperfDocument
	if json.Unmarshal(out, &doc) != nil {
		return ""
	}
	return doc.Error
}

// parseIperf returns the received MB/s, and the share of lost datagrams.
func parseIperf(out []byte, udp bool) (mbPerS, lostRatio float64, err error) {
	var doc iperfDocument
	if err := json.Unmarshal(out, &doc); err != nil {
		return 0, 0, fmt.Errorf("iperf3's report: %w", err)
	}
	if doc.Error != "" {
		return 0, 0, errors.New("iperf3: " + doc.Error)
	}
	mbPerS = doc.End.Received.BitsPerSecond / 8e6
	if udp {
		lostRatio = doc.End.Sum.LostPercent / 100
	}
	if !(mbPerS > 0) {
		return 0, 0, errors.New("iperf3 reports that nothing arrived")
	}
	return mbPerS, lostRatio, nil
}
