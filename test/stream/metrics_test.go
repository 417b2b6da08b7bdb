//go:build linux

package stream

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// freeAddress is one that nobody listens at now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startInflux starts InfluxDB and makes a database.
func startInflux(t *testing.T) (addr string) {
	t.Helper()
	program, err := exec.LookPath("influxd")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no influxd")
		}
		t.Skip("needs Debian's package influxdb")
	}
	dir := t.TempDir()
	addr = freeAddress(t)
	config := filepath.Join(dir, "influxdb.conf")
	write(t, config, fmt.Appendf(nil, `reporting-disabled = true
bind-address = %q
[meta]
dir = "%[2]s/meta"
[data]
dir = "%[2]s/data"
wal-dir = "%[2]s/wal"
[http]
bind-address = %[3]q
log-enabled = false
`, freeAddress(t), dir, addr))
	cmd := exec.Command(program, "run", "-config", config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed, so never nil
	})
	eventually(t, "InfluxDB makes a database", func() bool {
		resp, err := http.PostForm("http://"+addr+"/query", url.Values{"q": {"CREATE DATABASE gobtl"}})
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return addr
}

// queryInflux returns the columns of the answer to a question, and its rows.
func queryInflux(t *testing.T, addr, question string) (columns []string, rows [][]any) {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/query?db=gobtl&q=" + url.QueryEscape(question))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Results []struct {
			Series []struct {
				Columns []string
				Values  [][]any
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Results) != 1 || len(answer.Results[0].Series) != 1 {
		t.Fatalf("%s: %+v", question, answer)
	}
	s := answer.Results[0].Series[0]
	return s.Columns, s.Values
}

// scrape reads the stream's metrics as Prometheus does, by the names that InfluxDB has.
func scrape(t *testing.T, addr string) map[string]float64 {
	t.Helper()
	resp, err := http.Get(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]float64{}
	re := regexp.MustCompile(
		`(?m)^gobtl_stream_(\w+?)(?:_total)?\{role="receiver",stream="0"\} (\S+)$`)
	for _, m := range re.FindAllStringSubmatch(string(text), -1) {
		if list[m[1]], err = strconv.ParseFloat(m[2], 64); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// TestMetrics posts to a real InfluxDB while Prometheus' format is scraped: the same numbers.
func TestMetrics(t *testing.T) {
	influx := startInflux(t)
	both := []string{"-m8192", "-b64", "-c16", "-t100000", "--mode", "unreliable"}
	rx, tx := pair(t, both,
		[]string{"-v1000", "-o", influx, "--metrics", "127.0.0.1:0", "-d1", "--impair", "loss=1%"},
		[]string{"--rate", "0.2", "-v1000", "-o", "http://" + influx + "/write?db=gobtl"})
	metrics := found(t, &rx.stderr, `metrics on (\S+)\n`)
	scraped := map[float64]map[string]float64{} // samples, by the messages that they count
	eventually(t, "metrics show several samples", func() bool {
		sample := scrape(t, metrics)
		if len(sample) < 11 {
			return false
		}
		scraped[sample["messages"]] = sample
		return len(scraped) > 4 && sample["messages"] > 3000
	})
	tx.signal(syscall.SIGINT)
	tx.wait()
	rx.wait()
	columns, rows := queryInflux(t, influx, "SELECT * FROM gobtl_stream WHERE role='receiver'")
	if len(rows) < 4 {
		t.Fatalf("%d rows, scraped %v", len(rows), scraped)
	}
	// Two samples have the same number of messages if none came between them.
	points := map[float64][]map[string]float64{}
	last := 0.0
	for _, row := range rows {
		point := map[string]float64{}
		for i, c := range columns {
			if v, ok := row[i].(float64); ok {
				point[c] = v
			}
		}
		last = point["messages"]
		points[last] = append(points[last], point)
	}
	same := 0
	for messages, sample := range scraped {
		of := points[messages]
		if len(of) == 0 {
			continue // it was not posted, because the database was slow
		}
		same++
		if !slices.ContainsFunc(of, func(point map[string]float64) bool {
			return !slices.ContainsFunc(slices.Collect(maps.Keys(sample)), func(name string) bool {
				return point[name] != sample[name]
			})
		}) {
			t.Errorf("%v messages: Prometheus %v, InfluxDB %v", messages, sample, of)
		}
	}
	if same == 0 {
		t.Errorf("none of %d points is among the %d scraped samples", len(rows), len(scraped))
	}
	if r := rx.report(); last != float64(r.Messages) {
		t.Errorf("last point %v, report %d", last, r.Messages)
	}
	_, rows = queryInflux(t, influx, "SELECT messages FROM gobtl_stream WHERE role='sender'")
	if len(rows) < 2 {
		t.Errorf("%d rows of the sender", len(rows))
	}
}

// lineProtocol is the form of a line, as InfluxDB's manual has it: measurement, tags, fields, time.
var lineProtocol = regexp.MustCompile(
	`^gobtl_stream(,\w+=(\\[ ,=]|[^ ,=\\])+)+ (\w+=-?\d+(\.\d+)?)(,\w+=-?\d+(\.\d+)?)* \d{19}$`)

// TestInfluxTrouble: a database that is slow, refuses or is not there disturbs no stream, and every
// line that is posted is well formed.
func TestInfluxTrouble(t *testing.T) {
	var lock sync.Mutex
	var lines []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		lock.Lock()
		lines = append(lines, strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")...)
		lock.Unlock()
		time.Sleep(50 * time.Millisecond)
		http.Error(w, "partial write: no", http.StatusBadRequest)
	}))
	defer server.Close()
	for _, addr := range []string{server.URL, freeAddress(t)} {
		rx, tx := pair(t, []string{"-m8192", "-b16", "-c16", "-t20000"},
			[]string{"-v500", "-o", addr, "--verify"}, nil)
		tx.ok()
		rx.ok()
		if text := rx.stderr.String(); !strings.Contains(text, "-o: ") {
			t.Errorf("no warning: %s", text)
		}
	}
	if len(lines) < 2 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		if !lineProtocol.MatchString(line) {
			t.Errorf("%s", line)
		}
	}
}
