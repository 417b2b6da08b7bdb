package main

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/btlbench/session"
	"gobtl/internal/report"
)

// servedWriter writes the measurements of a server for each client that has ended.
type servedWriter struct {
	lock sync.Mutex // clients end at the same time
	w    io.Writer
	err  error // of the first write that failed
}

// write writes the table of a client, or nothing if the client had no round.
func (s *servedWriter) write(from net.Addr, list []*session.Served) {
	if len(list) == 0 {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	_, err := fmt.Fprintf(s.w, "\nclient %v, as seen here, warm-up included\n%s", from,
		servedTable(list))
	if s.err == nil {
		s.err = err
	}
}

// servedTable is the table of a client, with at most 80 columns.
func servedTable(list []*session.Served) string {
	t := report.Table{
		Heads: [][]string{{"test", "size", "layer", "received", "MB/s", "sent", "resent", "CPU %"}},
		Left:  []int{0, 2},
	}
	for _, s := range list {
		r := &s.Result
		rate := 0.0
		if r.Usage.WallNs > 0 {
			rate = float64(r.Tally.Bytes) * 1e3 / float64(r.Usage.WallNs)
		}
		t.Rows = append(t.Rows, []string{
			s.Test, plan.SizeText(s.SizeBytes), s.Layer,
			strconv.FormatInt(r.Tally.Messages, 10), fmt.Sprintf("%.1f", rate),
			strconv.FormatUint(r.Sent, 10), strconv.FormatUint(r.Counters.Retransmits, 10),
			fmt.Sprintf("%.0f", r.Usage.Percent()),
		})
	}
	return t.String()
}
