package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// influx posts samples to InfluxDB in its line protocol. A post never blocks the stream. If the
// queue is full, the sample is dropped and counted.
type influx struct {
	env     *environment
	url     string
	tags    string
	lines   chan string
	ended   chan struct{}
	client  http.Client
	dropped int
	failed  int
	why     error
}

const (
	influxQueue   = 1024
	influxTimeout = 5 * time.Second
	// influxEvery is the minimum time between two posts, because a post costs more than many
	// samples.
	influxEvery = 100 * time.Millisecond
)

func newInflux(env *environment, url, role string) *influx {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	f := &influx{
		env: env, url: url, lines: make(chan string, influxQueue), ended: make(chan struct{}),
		tags: ",role=" + role + ",host=" + influxTag(host), client: http.Client{Timeout: influxTimeout},
	}
	go f.run()
	return f
}

// influxTag escapes the separators in the value of a tag.
func influxTag(s string) string {
	return strings.NewReplacer(",", `\,`, "=", `\=`, " ", `\ `).Replace(s)
}

// influxLine returns a sample as a line of the line protocol.
func influxLine(tags string, s sample) string {
	var b strings.Builder
	fmt.Fprintf(&b, "gobtl_stream%s,stream=%d ", tags, s.stream)
	for i, f := range s.fields {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(f.name + "=" + strconv.FormatFloat(f.value, 'f', -1, 64))
	}
	fmt.Fprintf(&b, " %d\n", s.at.UnixNano())
	return b.String()
}

// post queues a sample to be sent soon.
func (f *influx) post(s sample) {
	select {
	case f.lines <- influxLine(f.tags, s):
	default:
		f.dropped++
	}
}

func (f *influx) run() {
	defer close(f.ended)
	for line := range f.lines {
		body := bytes.NewBufferString(line)
		f.gather(body)
		if err := f.send(body); err != nil {
			if f.failed == 0 {
				f.env.logf(logWarning, "-o: %v", err)
			}
			f.failed++
			f.why = err
		}
	}
}

// gather collects samples for one post, until influxEvery has passed or the queue is closed.
func (f *influx) gather(body *bytes.Buffer) {
	soon := time.NewTimer(influxEvery)
	defer soon.Stop()
	for {
		select {
		case line, ok := <-f.lines:
			if !ok {
				return
			}
			body.WriteString(line)
		case <-soon.C:
			return
		}
	}
}

func (f *influx) send(body io.Reader) error {
	ctx, cancel := context.WithTimeout(context.Background(), influxTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	resp, err := f.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 512))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	return err
}

// close sends the remaining samples. Samples that cannot be sent are reported, but do not make the
// stream fail.
func (f *influx) close() {
	close(f.lines)
	<-f.ended
	if f.failed+f.dropped > 0 {
		f.env.logf(logWarning, "-o: %d posts failed, %d samples dropped; the last error: %v", f.failed,
			f.dropped, f.why)
	}
}
