package measure

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
)

// column is one column of a test's table.
type column struct {
	name  string
	value func(r *RunRecord) string
	left  bool // aligned left
	// spare orders the columns that are left out on a narrow terminal, and 0 means that the column
	// is always shown.
	spare int
}

// columns returns the columns of a test's table that are not empty.
func columns(test string, runs []RunRecord, verified bool) []column {
	some := func(has func(*RunRecord) bool) bool {
		return slices.ContainsFunc(runs, func(r RunRecord) bool { return has(&r) })
	}
	list := []column{{name: "size", value: func(r *RunRecord) string {
		return plan.SizeText(r.SizeBytes)
	}}}
	list = append(list, column{name: "layer", left: true, value: func(r *RunRecord) string {
		return r.Layer
	}})
	if test == plan.TestRate || test == plan.TestLatLoad ||
		some(func(r *RunRecord) bool { return r.Window != runs[0].Window }) && !plan.IsLatency(test) {
		list = append(list, count("window", 0, func(r *RunRecord) int64 { return int64(r.Window) }))
	}
	if plan.IsLatency(test) {
		list = append(list, latencyColumns(test)...)
	} else {
		list = append(list, flowColumns(test)...)
	}
	if some(func(r *RunRecord) bool { return r.SegmentsSent > 0 }) {
		list = append(list, column{name: "resent", spare: 1, value: resentText},
			count("dup", 9, func(r *RunRecord) int64 { return int64(r.Duplicates) }))
	}
	if some(func(r *RunRecord) bool { return r.LostDatagrams != 0 }) {
		list = append(list, count("lost", 0, func(r *RunRecord) int64 { return r.LostDatagrams }))
	}
	list = append(list, column{name: "CPU % c/s", spare: 7, value: func(r *RunRecord) string {
		return fmt.Sprintf("%.0f/%.0f", r.CPUPercent.Client, r.CPUPercent.Server)
	}})
	if some(func(r *RunRecord) bool { return r.Waits.Client.Crowded+r.Waits.Server.Crowded > 0 }) {
		list = append(list, column{name: "CPU shared c/s", spare: 4, value: func(r *RunRecord) string {
			return yesNo(r.Waits.Client.Crowded > 0) + "/" + yesNo(r.Waits.Server.Crowded > 0)
		}})
	}
	if some(func(r *RunRecord) bool {
		return r.GarbageCollections.Client+r.GarbageCollections.Server > 0
	}) {
		list = append(list, column{name: "GC c/s", spare: 1, value: func(r *RunRecord) string {
			return fmt.Sprintf("%d/%d", r.GarbageCollections.Client, r.GarbageCollections.Server)
		}})
	}
	if verified {
		list = append(list, count("verified", 0, func(r *RunRecord) int64 { return r.VerifiedBytes }),
			count("corrupt", 0, func(r *RunRecord) int64 { return r.CorruptBytes }))
	}
	for _, ratio := range []struct {
		name  string
		spare int
		of    func(*RunRecord) *float64
	}{
		{"btl/raw", 0, func(r *RunRecord) *float64 { return r.shownToRaw }},
		{"p50/idle", 0, func(r *RunRecord) *float64 { return r.shownToIdle }},
		{"by round", 10, func(r *RunRecord) *float64 { return cmp.Or(r.RatioToRaw, r.RatioToIdle) }},
	} {
		if some(func(r *RunRecord) bool { return ratio.of(r) != nil }) {
			list = append(list, column{
				name: ratio.name, spare: ratio.spare,
				value: func(r *RunRecord) string { return ratioText(ratio.of(r)) },
			})
		}
	}
	return list
}

func ratioText(ratio *float64) string {
	if ratio == nil {
		return ""
	}
	return strconv.FormatFloat(*ratio, 'f', 2, 64)
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func count(name string, spare int, value func(*RunRecord) int64) column {
	return column{name: name, spare: spare, value: func(r *RunRecord) string {
		return strconv.FormatInt(value(r), 10)
	}}
}

// latencyColumns are the values of a ping-pong, and of the stream beside it.
func latencyColumns(test string) (list []column) {
	figure := func(name string, spare int, of func(*layers.LatencyStats) float64) {
		list = append(list, column{name: name, spare: spare, value: func(r *RunRecord) string {
			if r.Latency == nil {
				return ""
			}
			return microseconds(of(r.Latency))
		}})
	}
	if test == plan.TestLatLoad {
		list = append(list,
			column{name: "load", left: true, value: func(r *RunRecord) string { return r.Load }},
			column{name: "load MB/s", value: func(r *RunRecord) string {
				return fmt.Sprintf("%.0f", r.LoadBandwidth)
			}})
	} else {
		list = append(list, count("round trips", 8, func(r *RunRecord) int64 { return r.Iterations }))
		figure("min", 5, func(l *layers.LatencyStats) float64 { return l.Min })
	}
	figure("p50", 0, func(l *layers.LatencyStats) float64 { return l.P50 })
	if test != plan.TestLatLoad {
		figure("p90", 4, func(l *layers.LatencyStats) float64 { return l.P90 })
	}
	figure("p99", 0, func(l *layers.LatencyStats) float64 { return l.P99 })
	figure("p99.9", 0, func(l *layers.LatencyStats) float64 { return l.P999 })
	figure("p99.99", 3, func(l *layers.LatencyStats) float64 { return l.P9999 })
	figure("max", 2, func(l *layers.LatencyStats) float64 { return l.Max })
	if test != plan.TestLatLoad {
		figure("mean", 6, func(l *layers.LatencyStats) float64 { return l.Mean })
	}
	return list
}

// microseconds formats a latency with about four digits, and with at most two decimal places.
func microseconds(us float64) string {
	switch {
	case us >= 1000:
		return fmt.Sprintf("%.0f", us)
	case us >= 100:
		return fmt.Sprintf("%.1f", us)
	}
	return fmt.Sprintf("%.2f", us)
}

// flowColumns returns the columns for a flow, the most important one first.
func flowColumns(test string) []column {
	messages := count("messages", 8, func(r *RunRecord) int64 { return r.Iterations })
	rate := column{name: "messages/s", value: func(r *RunRecord) string {
		return fmt.Sprintf("%.0f", r.Rate)
	}}
	bandwidth := column{name: "MB/s", value: func(r *RunRecord) string {
		return fmt.Sprintf("%.1f", r.Bandwidth)
	}}
	if test != plan.TestRate {
		return []column{messages, bandwidth, rate}
	}
	bandwidth.spare = 2
	return []column{rate, {name: "ns/message", spare: 3, value: func(r *RunRecord) string {
		return fmt.Sprintf("%.1f", r.NsPerMessage)
	}}, bandwidth}
}

// resentText is the number of retransmissions, with their share of all segments.
func resentText(r *RunRecord) string {
	if r.Retransmits == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%.2g%%)", r.Retransmits, 100*r.RetransmitRatio)
}
