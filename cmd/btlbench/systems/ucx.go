package systems

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// ucx measures UCX's tagged messages over one of its transports with ucx_perftest.
type ucx struct {
	about           Info
	env, flags      []string
	latency, stream costs
}

// The constants are approximate times per message. The numbers of messages are so large that the
// messages in the socket's buffer at the end are a small part of all.
var (
	ucxLatencyCosts = costs{perMessage: 7 * time.Microsecond, bytesPerSec: 4e9}
	ucxStreamCosts  = costs{perMessage: time.Microsecond, bytesPerSec: 4e9}
	ucxMemoryCosts  = costs{perMessage: 250 * time.Nanosecond, bytesPerSec: 10e9}
)

func newUCX() *ucx {
	return ucxOver("ucx-tcp", "UCX tcp", ucxLatencyCosts, ucxStreamCosts, "UCX_TLS=tcp,self",
		"UCX_NET_DEVICES=lo")
}

// newUCXMemory is UCX over shared memory.
func newUCXMemory(id, label, transports string) *ucx {
	return ucxOver(id, label, ucxMemoryCosts, ucxMemoryCosts, "UCX_TLS="+transports+",self")
}

// newUCXNotices is UCX between processes of one host that notice each other's death. UCX's shared
// memory has no error handling, and therefore UCX uses TCP in this case.
func newUCXNotices() *ucx {
	u := ucxOver("ucx-errors", "UCX, error handling", ucxLatencyCosts, ucxStreamCosts,
		"UCX_TLS=all", "UCX_NET_DEVICES=lo")
	u.flags = []string{"-e"}
	u.about.Command = strings.Replace(u.about.Command, "ucx_perftest", "ucx_perftest -e", 1)
	u.about.Note = "with error handling, as all of gobtl: UCX then uses no shared memory"
	return u
}

func ucxOver(id, label string, latency, stream costs, env ...string) *ucx {
	u := &ucx{env: append(env, "UCX_WARN_UNUSED_ENV_VARS=n"), latency: latency, stream: stream}
	u.about = Info{
		ID: id, Label: label, Kind: KindPeer, Package: "ucx-utils",
		Command: strings.Join(env, " ") + " ucx_perftest -t tag_lat -s 8 [127.0.0.1]",
	}
	return u
}

// ucxVersion finds the version in the output of ucx_info.
const ucxVersion = `(?i)version:? (\d\S*)`

func (u *ucx) Info() *Info { return &u.about }

func (u *ucx) Probe(ctx context.Context, h *Host) (string, error) {
	for _, tool := range []string{"ucx_perftest", "ucx_info"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", &MissingError{tool + " is not installed"}
		}
	}
	out, err := h.run(ctx, anyCPU, command{name: "ucx_info", args: []string{"-v"}})
	if err != nil {
		return "", err
	}
	return firstMatch(ucxVersion, out), nil
}

func (u *ucx) Cannot(p Point) string {
	if p.Workload == Rate {
		return "ucx_perftest waits for no answer of the receiver; see Open MPI"
	}
	return ""
}

func (u *ucx) Measure(ctx context.Context, h *Host, points []Point) ([]Sample, error) {
	var samples []Sample
	for _, point := range points {
		s, err := u.once(ctx, h, point)
		if err != nil {
			return samples, fmt.Errorf("%v: %w", point, err)
		}
		samples = append(samples, s)
	}
	return samples, nil
}

func (u *ucx) once(ctx context.Context, h *Host, point Point) (Sample, error) {
	s := Sample{Point: point}
	port, err := freePort()
	if err != nil {
		return s, err
	}
	test, n := "tag_bw", u.stream.count(point.SizeBytes, h.each)
	if point.Workload == Latency {
		test, n = "tag_lat", u.latency.count(point.SizeBytes, h.each/2) // each is a round trip
	}
	args := append([]string{
		"-t", test, "-s", strconv.Itoa(point.SizeBytes), "-O", strconv.Itoa(point.Window),
		"-n", strconv.Itoa(n), "-w", strconv.Itoa(max(2, n/10)), "-N", "-f",
		"-p", strconv.Itoa(port),
	}, u.flags...)
	server := command{name: "ucx_perftest", args: args, env: u.env}
	client := command{
		name: "ucx_perftest", args: append([]string{"127.0.0.1"}, args...), env: u.env,
	}
	out, err := h.runPair(ctx, server, client, port)
	if err != nil {
		return s, err
	}
	f, err := parseUCX(out)
	if err != nil {
		return s, err
	}
	if point.Workload == Latency {
		s.Value, s.MedianUs = f.meanUs, f.medianUs
	} else {
		// The value is computed from the message rate, because an MB of ucx_perftest has 1048576
		// bytes.
		s.Value = f.perSecond * float64(point.SizeBytes) / 1e6
	}
	return s, nil
}

// ucxFigures matches the overall values in ucx_perftest's last line.
type ucxFigures struct{ medianUs, meanUs, perSecond float64 }

// The columns of ucx_perftest are iterations, 50th percentile, average and overall latency, average
// and overall bandwidth, and average and overall rate.
const ucxColumns = 8

// parseUCX parses the last line of values, with or without "Final:" before it.
func parseUCX(out []byte) (ucxFigures, error) {
	var f ucxFigures
	var fields []string
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		words := strings.Fields(strings.TrimPrefix(lines.Text(), "Final:"))
		if len(words) < ucxColumns {
			continue
		}
		if _, err := strconv.ParseFloat(strings.ReplaceAll(words[0], ",", ""), 64); err == nil {
			fields = words
		}
	}
	if fields == nil {
		return f, errors.New("ucx_perftest wrote no figures")
	}
	for _, c := range []struct {
		to *float64
		at int
	}{{&f.medianUs, 1}, {&f.meanUs, 3}, {&f.perSecond, 7}} {
		x, err := positive(strings.ReplaceAll(fields[c.at], ",", ""))
		if err != nil {
			return f, fmt.Errorf("ucx_perftest: %w", err)
		}
		*c.to = x
	}
	return f, nil
}
