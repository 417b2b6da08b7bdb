package layers

import (
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/internal/report"
)

// State is the state of a layer at the end of a run, in addition to its counters.
type State struct {
	// Path is the transport's estimate of the path to its peer. The bare fabric has no Path.
	Path *PathRecord `json:"path"`
	// Fabric has the attributes of the provider, including counts of events since it was opened.
	Fabric []AttrRecord `json:"fabric"`
}

// PathRecord is a btl.Path with names for JSON, where a time of 0 was not measured.
type PathRecord struct {
	RoundTripUs   float64 `json:"round_trip_us"`
	DeviationUs   float64 `json:"deviation_us"`
	LeastUs       float64 `json:"least_us"`
	WindowPackets int     `json:"window_packets"`
	InFlight      int     `json:"in_flight_packets"`
	SlowStart     bool    `json:"slow_start"`
	MTUBytes      int     `json:"mtu_bytes"`
	MTUWhy        string  `json:"mtu_why"`
}

func newPathRecord(ep *btl.Endpoint) *PathRecord {
	us := func(d time.Duration) float64 { return report.Decimals(float64(d)/1e3, 3) }
	p := ep.Path()
	return &PathRecord{
		RoundTripUs: us(p.RoundTrip), DeviationUs: us(p.Deviation), LeastUs: us(p.Least),
		WindowPackets: p.WindowPackets, InFlight: p.InFlightPackets, SlowStart: p.SlowStart,
		MTUBytes: p.MTUBytes, MTUWhy: p.MTUWhy,
	}
}

func newAttrRecords(attrs []fabric.Attr) []AttrRecord {
	list := []AttrRecord{}
	for _, a := range attrs {
		list = append(list, AttrRecord{a.Name, a.Value})
	}
	return list
}
