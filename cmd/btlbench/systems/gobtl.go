package systems

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// pair measures the transport or the bare fabric with this program's command "pair", whose two
// processes are started for each measurement.
type pair struct {
	about    Info
	self     string
	provider string
	layer    string
	mtuBytes int // 0 is the interface's
	version  string
	present  func(provider string) error
}

func newPair(this Program, provider, layer string, mtuBytes int) *pair {
	p := &pair{
		self: this.Self, provider: provider, layer: layer, mtuBytes: mtuBytes,
		version: this.Version, present: this.Present,
	}
	name := strings.ReplaceAll(provider, "/", "-")
	label := provider
	if mtuBytes != 0 {
		name += "-" + strconv.Itoa(mtuBytes)
		label += ", MTU " + strconv.Itoa(mtuBytes)
	}
	p.about = Info{ID: "gobtl-" + name, Label: "gobtl " + label, Kind: KindBTL, RawID: "raw-" + name}
	if layer == "raw" {
		p.about = Info{ID: "raw-" + name, Label: "raw " + label, Kind: KindRaw}
	}
	p.about.Command = "btlbench " + strings.Join(p.args("lat", "8", "64"), " ")
	return p
}

func (p *pair) Info() *Info { return &p.about }

func (p *pair) Probe(context.Context, *Host) (string, error) {
	if err := p.present(p.provider); err != nil {
		return "", &MissingError{fmt.Sprintf("no provider %s here: %v", p.provider, err)}
	}
	return p.version, nil
}

// Cannot returns nothing, because the command "pair" reports what a layer cannot do.
func (p *pair) Cannot(Point) string { return "" }

// testNames are the names of the workloads in the command "pair".
var testNames = map[Workload]string{Latency: "lat", Stream: "bw", Rate: "rate"}

// args is the command line for sizes of a test, each with all windows.
func (p *pair) args(test, sizes, windows string) []string {
	args := []string{"pair", "--provider", p.provider, "--layer", p.layer}
	if p.mtuBytes != 0 {
		args = append(args, "--mtu", strconv.Itoa(p.mtuBytes))
	}
	return append(args, "--test", test, "--size", sizes, "--window", windows)
}

// Measure runs one pair for all points, so that the session is opened only once.
func (p *pair) Measure(ctx context.Context, h *Host, points []Point) ([]Sample, error) {
	w := points[0].Workload
	sizes, windows := []string{strconv.Itoa(RateBytes)}, []string{"64"}
	if w == Rate {
		windows = nil
		for _, point := range points {
			windows = append(windows, strconv.Itoa(point.Window))
		}
	} else {
		// The command "pair" makes the window smaller for large messages, as StreamWindow does.
		sizes = nil
		for _, point := range points {
			sizes = append(sizes, strconv.Itoa(point.SizeBytes))
		}
	}
	args := append(p.args(testNames[w], strings.Join(sizes, ","), strings.Join(windows, ",")),
		"--format", "json", "--rounds", strconv.Itoa(max(1, h.parts)),
		"--duration", h.each.String(), "--cpus", h.cpuText())
	// The command "pair" pins its own threads.
	out, err := h.run(ctx, anyCPU, command{name: p.self, args: args})
	samples, parseErr := parsePair(out, p.layer, points)
	if err == nil {
		err = parseErr
	}
	return samples, err
}

// pairDocument is the used part of the report of "pair".
type pairDocument struct {
	Runs []struct {
		Test      string  `json:"test"`
		Layer     string  `json:"layer"`
		SizeBytes int     `json:"size_bytes"`
		Window    int     `json:"window"`
		Bandwidth float64 `json:"bandwidth_mb_per_s"`
		Rate      float64 `json:"messages_per_s"`
		Latency   *struct {
			P50  float64 `json:"p50"`
			Mean float64 `json:"mean"`
		} `json:"latency_us"`
		Iterations      int64   `json:"iterations"`
		RetransmitRatio float64 `json:"retransmit_ratio"`
		LostDatagrams   int64   `json:"lost_datagrams"`
	} `json:"runs"`
	Skipped []struct {
		SizeBytes int    `json:"size_bytes"`
		Reason    string `json:"reason"`
	} `json:"skipped"`
}

// SkippedError means that a tool has refused points, with the reason, and that the other points
// were measured.
type SkippedError struct{ Reasons map[Point]string }

func (e *SkippedError) Error() string { return fmt.Sprintf("%d sizes left out", len(e.Reasons)) }

// parsePair parses the report of a run of one test.
func parsePair(out []byte, layer string, points []Point) ([]Sample, error) {
	var doc pairDocument
	if err := json.Unmarshal(out, &doc); err != nil {
		return nil, fmt.Errorf("report of pair: %w", err)
	}
	var samples []Sample
	skipped := map[Point]string{}
	for _, point := range points {
		found := false
		for i := range doc.Runs {
			r := &doc.Runs[i]
			if r.Test != testNames[point.Workload] || r.Layer != layer ||
				r.SizeBytes != point.SizeBytes || point.Workload == Rate && r.Window != point.Window {
				continue
			}
			s := Sample{Point: point, ResentRatio: r.RetransmitRatio}
			if all := r.Iterations + r.LostDatagrams; layer == "raw" && all > 0 {
				s.LostRatio = float64(r.LostDatagrams) / float64(all)
			}
			switch {
			case point.Workload == Latency && r.Latency != nil:
				s.Value, s.MedianUs = r.Latency.Mean, r.Latency.P50
			case point.Workload == Stream:
				s.Value = r.Bandwidth
			case point.Workload == Rate:
				s.Value = r.Rate
			}
			if s.Value > 0 {
				samples, found = append(samples, s), true
			}
		}
		for _, s := range doc.Skipped {
			if s.SizeBytes == point.SizeBytes {
				skipped[point], found = s.Reason, true
			}
		}
		if !found {
			return samples, fmt.Errorf("report of pair: nothing on %v", point)
		}
	}
	if len(skipped) > 0 {
		return samples, &SkippedError{skipped}
	}
	return samples, nil
}
