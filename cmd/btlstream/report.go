package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"gobtl/fabric/impair"
	"gobtl/stream"
)

const (
	formatJSON = "json"
	schema     = "gobtl-stream/1"
)

// outcome is the result of a stream that has ended.
type outcome struct {
	role    string
	stream  int
	stats   stream.Stats
	reports []stream.Stats // of a sender: the counts that the receivers sent
	cpu     cpuMeter
	err     error
}

// begun reports whether a message of the stream was sent or received.
func (o *outcome) begun() bool { return o.stats.FirstNs != 0 }

// record is the JSON form of an outcome.
type record struct {
	Schema     string  `json:"schema"`
	Role       string  `json:"role"`
	Mode       string  `json:"mode"`
	Stream     int     `json:"stream"`
	Messages   uint64  `json:"messages"`
	Missing    uint64  `json:"missing"`
	Duplicates uint64  `json:"duplicates"`
	Late       uint64  `json:"late"`
	MBPerS     float64 `json:"megabytes_per_second"`
	Seconds    float64 `json:"seconds"`

	Sent          uint64          `json:"sent"`
	MissingGrams  uint64          `json:"missing_datagrams"`
	Overrun       uint64          `json:"overrun"`
	SenderDropped uint64          `json:"sender_dropped"`
	SocketDrops   uint64          `json:"socket_drops"`
	SendErrors    uint64          `json:"send_errors"`
	FullDrops     uint64          `json:"full_drops"`
	Foreign       uint64          `json:"foreign"`
	Stale         uint64          `json:"stale"`
	Datagrams     uint64          `json:"datagrams"`
	Regions       uint64          `json:"regions"`
	PeersLost     uint64          `json:"peers_lost"`
	Refused       stream.Refusals `json:"refused"`
	BurstBytes    uint64          `json:"burst_bytes"`
	ForfeitedS    float64         `json:"forfeited_seconds"`
	CPUPercent    float64         `json:"cpu_percent"`
	Impair        *impair.Counts  `json:"impair,omitempty"`
	Receivers     []*stream.Stats `json:"receivers,omitempty"`
	// Meeting counts the peers that --listen has refused, summed over all streams.
	Meeting *stream.MeetingRefusals `json:"meeting,omitempty"`
	Error   string                  `json:"error,omitempty"`
}

func (s *session) record(o *outcome) *record {
	st := &o.stats
	r := &record{
		Schema: schema, Role: o.role, Mode: s.c.Mode.String(), Stream: o.stream,
		Messages: st.Received, Missing: st.Missing, Duplicates: st.Duplicates, Late: st.Late,
		MBPerS: math.Round(st.MegabytesPerSecond()*1e3) / 1e3, Seconds: st.Seconds(),
		Sent: st.Sent, MissingGrams: st.MissingDatagrams, Overrun: st.Overrun,
		SenderDropped: st.SenderDropped,
		SocketDrops:   st.SocketDrops, SendErrors: st.SendErrors, Foreign: st.Foreign, Stale: st.Stale,
		FullDrops: st.FullDrops,
		Datagrams: st.Datagrams, Regions: st.Regions, PeersLost: st.PeersLost,
		Refused: st.Refused, BurstBytes: st.BurstBytes,
		ForfeitedS: float64(st.ForfeitedNs) / 1e9, CPUPercent: o.cpu.percent(),
	}
	if o.role == "sender" {
		r.Messages = st.Sent
	}
	for i := range o.reports {
		r.Receivers = append(r.Receivers, &o.reports[i])
	}
	if s.impaired != nil {
		c := since(s.impaired.Counts(), s.meant)
		r.Impair = &c
	}
	if s.meeting != nil {
		m := s.meeting.Refusals()
		r.Meeting = &m
	}
	if o.err != nil {
		r.Error = o.err.Error()
	}
	return r
}

// The method report writes the closing report of each stream.
func (s *session) report(outcomes []outcome) error {
	if s.c.Format == formatJSON {
		enc := json.NewEncoder(s.env.stdout)
		for i := range outcomes {
			if err := enc.Encode(s.record(&outcomes[i])); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range outcomes {
		if err := s.text(&outcomes[i]); err != nil {
			return err
		}
	}
	return nil
}

// The method text writes the closing report of a stream as text.
func (s *session) text(o *outcome) error {
	st := &o.stats
	out := s.env.stdout
	if s.c.Streams > 1 {
		fmt.Fprintf(out, "Stream %d:\n", o.stream)
	}
	if o.err != nil && !o.begun() {
		return refusedLine(out, st) // the error says the rest
	}
	wall := time.Duration(st.LastNs - st.FirstNs)
	fmt.Fprintf(out, "Wall time since first message: %.3f ms; CPU time: %.3f ms (%.1f %%)\n",
		float64(wall)/1e6, float64(o.cpu.used)/1e6, o.cpu.percent())
	fmt.Fprintf(out, "Bandwidth: %.2f Gbps\n", st.MegabytesPerSecond()*8/1e3)
	if err := refusedLine(out, st); err != nil {
		return err
	}
	if o.role == "sender" {
		fmt.Fprintf(out, "Sent %d messages; queue at %.1f %% of capacity\n", st.Sent,
			100*float64(st.Populated)/float64(max(st.Capacity, 1)))
		if st.SenderDropped > 0 {
			fmt.Fprintf(out, "%d messages dropped here: no region was free\n", st.SenderDropped)
		}
		if st.FullDrops > 0 {
			fmt.Fprintf(out, "%d datagrams dropped here for full receivers\n", st.FullDrops)
		}
		if st.PeersLost > 0 {
			fmt.Fprintf(out, "%d receivers lost on the way\n", st.PeersLost)
		}
		if st.BurstBytes > 0 {
			fmt.Fprintf(out, "Longest burst: %d bytes\n", st.BurstBytes)
		}
		for i := range o.reports {
			fmt.Fprintf(out, "Receiver %d: %s\n", i+1, lossText(&o.reports[i]))
		}
		return nil
	}
	_, err := fmt.Fprintln(out, lossText(st))
	return err
}

// refusedLine writes how many peers were refused, if there are any.
func refusedLine(out io.Writer, st *stream.Stats) error {
	n := st.Refused.Total()
	if n == 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "%d peers refused: %s\n", n, refusedText(&st.Refused))
	return err
}

// refusedText returns a text with the reasons why peers were refused.
func refusedText(r *stream.Refusals) string {
	var parts []string
	for _, f := range refusedFields(r) {
		if f.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", f.n, f.reason))
		}
	}
	return strings.Join(parts, ", ")
}

// refusedField is a reason for a refusal, with the number of refused peers.
type refusedField struct {
	reason string
	n      uint64
}

func refusedFields(r *stream.Refusals) []refusedField {
	return []refusedField{
		{"mismatch", r.Mismatch},
		{"wish", r.Wish},
		{"taken", r.Taken},
		{"silent", r.Silent},
		{"address", r.Address},
		{"unreachable", r.Unreachable},
		{"there", r.There},
		{"strangers", r.Strangers},
		{"unread", r.Unread},
		{"letters", r.Letters},
	}
}

// lossText describes the missing messages, and where they were lost.
func lossText(st *stream.Stats) string {
	text := fmt.Sprintf("%d missing from %d total (%.4f %%)", st.Missing, st.Sent,
		100*float64(st.Missing)/float64(max(st.Sent, 1)))
	for _, f := range []struct {
		n    uint64
		what string
	}{
		{st.Late, "late"},
		{st.Overrun, "found no free region"},
		{st.Duplicates, "duplicate datagrams"},
		{st.SenderDropped, "dropped by the sender"},
		{st.MissingDatagrams, "datagrams did not come"},
		{st.SocketDrops, "packets dropped at the socket (a run of datagrams is one)"},
		{st.Stale, "datagrams too old to tell"},
		{st.Foreign, "datagrams of no stream here"},
	} {
		if f.n > 0 {
			text += fmt.Sprintf(", %d %s", f.n, f.what)
		}
	}
	return text
}

// The function since returns the number of faults that --impair has injected after the earlier
// counters were read.
func since(now, before impair.Counts) impair.Counts {
	return impair.Counts{
		Arrived:    now.Arrived - before.Arrived,
		Passed:     now.Passed - before.Passed,
		Lost:       now.Lost - before.Lost,
		Duplicated: now.Duplicated - before.Duplicated,
		Reordered:  now.Reordered - before.Reordered,
		Delayed:    now.Delayed - before.Delayed,
		Corrupted:  now.Corrupted - before.Corrupted,
		Truncated:  now.Truncated - before.Truncated,
	}
}
