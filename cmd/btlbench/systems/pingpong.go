package systems

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pingpong measures a libfabric provider with fi_pingpong, which supports only ping-pongs.
type pingpong struct {
	about    Info
	provider string
	endpoint string // msg, rdm or dgram
	costs    costs
}

func newPingpong(id, label, provider, endpoint string, kind Kind) *pingpong {
	p := &pingpong{provider: provider, endpoint: endpoint}
	p.about = Info{
		ID: id, Label: label, Kind: kind, Package: "libfabric-bin",
		Command: fmt.Sprintf("fi_pingpong -p %q -e %s -S 8 -I 10000 [127.0.0.1]", provider, endpoint),
	}
	p.costs = costs{perMessage: 7 * time.Microsecond, bytesPerSec: 3e9}
	if provider != "tcp" {
		p.costs.bytesPerSec = 3e8
	}
	return p
}

// fabricVersion finds libfabric's version in the output of fi_info.
const fabricVersion = `libfabric: (\S+)`

func (p *pingpong) Info() *Info { return &p.about }

func (p *pingpong) Probe(ctx context.Context, h *Host) (string, error) {
	if _, err := exec.LookPath("fi_pingpong"); err != nil {
		return "", &MissingError{"fi_pingpong is not installed"}
	}
	out, err := h.run(ctx, anyCPU, command{name: "fi_info", args: []string{"--version"}})
	if err != nil {
		return "", err
	}
	return firstMatch(fabricVersion, out), nil
}

// udpDatagramBytes is the largest datagram of libfabric's provider udp.
const udpDatagramBytes = 1472

func (p *pingpong) Cannot(point Point) string {
	switch {
	case point.Workload != Latency:
		return "fi_pingpong measures only ping-pongs"
	case p.endpoint == "dgram" && point.SizeBytes > udpDatagramBytes:
		return fmt.Sprintf("larger than one datagram (%d bytes)", udpDatagramBytes)
	}
	return ""
}

func (p *pingpong) Measure(ctx context.Context, h *Host, points []Point) ([]Sample, error) {
	var samples []Sample
	for _, point := range points {
		port, err := freePort()
		if err != nil {
			return samples, err
		}
		roundTrips := p.costs.count(point.SizeBytes, h.each/2)
		args := []string{
			"-p", p.provider, "-e", p.endpoint, "-I", strconv.Itoa(roundTrips),
			"-S", strconv.Itoa(point.SizeBytes),
		}
		server := command{
			name: "fi_pingpong", args: slices.Concat(args, []string{"-B", strconv.Itoa(port)}),
		}
		client := command{
			name: "fi_pingpong",
			args: slices.Concat(args, []string{"-P", strconv.Itoa(port), "127.0.0.1"}),
		}
		out, err := h.runPair(ctx, server, client, port)
		if err != nil {
			return samples, fmt.Errorf("%v: %w", point, err)
		}
		s := Sample{Point: point}
		if s.Value, err = parsePingpong(out); err != nil {
			return samples, fmt.Errorf("%v: %w", point, err)
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// parsePingpong parses the column usec/xfer, which is half a mean round trip.
func parsePingpong(out []byte) (float64, error) {
	column := -1
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if column >= 0 && len(fields) > column {
			return positive(fields[column])
		}
		for i, name := range fields {
			if name == "usec/xfer" {
				column = i
			}
		}
	}
	return 0, errors.New("fi_pingpong wrote no figures")
}

// positive parses a positive number.
func positive(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err == nil && !(x > 0) {
		err = errors.New("not positive")
	}
	if err != nil {
		return 0, fmt.Errorf("figure %q: %w", text, err)
	}
	return x, nil
}

// firstMatch is the first match of the group of a pattern, or "unknown".
func firstMatch(pattern string, text []byte) string {
	if found := regexp.MustCompile(pattern).FindSubmatch(text); found != nil {
		return string(found[1])
	}
	return "unknown"
}
