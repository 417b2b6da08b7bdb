package compare

import (
	"fmt"
	"strconv"
	"strings"

	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/mpibench/pair"
	"gobtl/internal/plain"
	"gobtl/internal/report"
)

// layerWaits are the ways in which the layers wait.
var layerWaits = []string{"adaptive", "event", "busy"}

// layerMTUs are the network MTUs with which the layers are measured, where 0 is the MTU of
// loopback. headBytes is the size of the headers of IP and UDP.
var layerMTUs = []int{0, ethernetMTU}

const (
	ethernetMTU = 1500
	headBytes   = 28
)

// mtuName returns the name of a system with a network MTU.
func mtuName(system string, mtu int) string {
	if mtu == 0 {
		return system
	}
	return system + " " + strconv.Itoa(mtu)
}

func layerName(layer, wait string, mtu int) string { return mtuName(layer+" "+wait, mtu) }

// layerSystems returns the layers of package pair with each wait and MTU, and bare TCP connections.
func layerSystems(programs Programs) (list []*system) {
	for _, mtu := range layerMTUs {
		for _, layer := range pair.Layers() {
			for _, wait := range layerWaits {
				list = append(list, &system{
					name: layerName(layer, wait, mtu), layer: layer, program: programs.Mpibench,
					wait: wait, mtu: mtu,
				})
			}
		}
		list = append(list, floors(mtu)...)
	}
	return list
}

// The function floors returns the bare TCP connections.
func floors(mtu int) (list []*system) {
	for _, wait := range []string{"block", "poll"} {
		list = append(list, &system{
			name: mtuName("TCP "+wait, mtu), compiler: "gcc", source: floorSource, wait: wait, mtu: mtu,
			packages: "gcc", version: []string{"gcc", "-dumpfullversion"}, pattern: `(\S+)`,
		})
	}
	return list
}

// layerJobs returns the jobs of the layers. A stream has one test and one size in a job.
func layerJobs(quick bool) []job {
	list := []job{
		{2, []string{"latency", "bw"}, []int{8, 64 * k}},
		{2, []string{"bw"}, []int{64 * k}},
		{2, []string{"datagrams"}, []int{k}},
	}
	if quick {
		list[0].sizes = list[0].sizes[:1]
	}
	return list
}

// The method layerLine returns the arguments of mpibench that measure a layer.
func (s *system) layerLine(tests, sizes string, cfg *Config) []string {
	args := []string{
		"layer", s.layer, "--wait", s.wait, "--test", tests, "--size", sizes,
		"--duration", cfg.Each.String(), "--cpus", cfg.CPUs.String(),
	}
	if s.mtu > 0 {
		args = append(args, "--mtu", strconv.Itoa(s.mtu-headBytes))
	}
	return args
}

// layersText returns the report of the layers, with the rows of some MTUs.
func (r *Report) layersText(mtus []int) string {
	return fmt.Sprintf("Medians of %d rounds of %s; the processes are pinned round-robin to "+
		"CPUs %s.\n"+
		"x: adaptive relative to TCP block. Units: latency us, bw MB/s, datagrams messages/s.\n"+
		"Competing load: %s.\n\n%s%s", r.Rounds, r.Each, r.CPUs, r.Beside.Description(),
		r.layerTable(mtus), r.failures())
}

func (r *Report) layerTable(mtus []int) *report.Table {
	t := &report.Table{
		Heads: [][]string{append(append([]string{"layer", "test", "size", "MTU"}, layerWaits...),
			tcpWait, tcpPoll, "x")},
		Left: []int{0, 1},
	}
	points := report.InOrder(r.Figures, func(f *Figure) Point { return f.Point })
	for _, layer := range pair.Layers() {
		for _, p := range points {
			for _, mtu := range mtus {
				row, known := []string{layer, p.Test, plan.SizeText(p.Size), mtuText(mtu)}, false
				for _, wait := range layerWaits {
					v := r.value(layerName(layer, wait, mtu), p)
					row, known = append(row, text(v)), known || v > 0
				}
				if !known {
					continue
				}
				floor := r.value(mtuName(tcpWait, mtu), p)
				t.Rows = append(t.Rows, append(row, text(floor), text(r.value(mtuName(tcpPoll, mtu), p)),
					ratio(r.value(layerName(layer, layerWaits[0], mtu), p), floor)))
			}
		}
	}
	return t
}

func mtuText(mtu int) string {
	if mtu == 0 {
		return "65536"
	}
	return strconv.Itoa(mtu)
}

// The method failures returns a text with a paragraph for each failure.
func (r *Report) failures() string {
	var b strings.Builder
	for _, f := range r.Failures {
		const charsMax = 72 // the rest is advice of the launcher
		line, _, _ := strings.Cut(plain.Text(f), " / ")
		b.WriteString("\n" + line[:min(len(line), charsMax)] + "\n")
	}
	return b.String()
}
