package compare

import (
	"strings"
	"testing"
	"time"

	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/mpibench/bench"
)

// TestLayersReport checks the table of the layers and the section of the document.
func TestLayersReport(t *testing.T) {
	r := &Report{Rounds: 1, Beside: Nice, Layers: true}
	add := func(system, test string, size int, median float64) {
		r.add(system, []bench.Result{{Test: test, Size: size, Ranks: 2, Median: median}}, nil)
	}
	add(layerName("call", "adaptive", 0), "latency", 8, 5)
	add(layerName("call", "event", 0), "latency", 8, 20)
	add(layerName("call", "busy", 0), "latency", 8, 4)
	add(tcpWait, "latency", 8, 10)
	add(tcpPoll, "latency", 8, 3)
	add(layerName("conn", "adaptive", 1500), "latency", 8, 6)
	add(mtuName(tcpWait, 1500), "latency", 8, 12)
	add(layerName("stream", "adaptive", 0), "datagrams", k, 1e6)
	text := r.Text()
	words := strings.Join(strings.Fields(text), " ")
	for _, want := range []string{
		"Competing load: one endless loop at nice 19",
		"call latency 8 65536 5 20 4 10 3 0.50",
		"conn latency 8 1500 6 - - 12 - 0.50",
		"stream datagrams 1K 65536 1000000 - - - - -",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "latency "); n != 3 {
		t.Errorf("%d lines of latency, want 3 with the explanation\n%s", n, text)
	}
	doc, err := r.UpdateDocs(
		[]byte("<!-- layers-busy-nice:begin -->\n<!-- layers-busy-nice:end -->\n"))
	words = strings.Join(strings.Fields(string(doc)), " ")
	if err != nil || !strings.Contains(words, "conn latency 8 1500 6 - - 12 - 0.50") ||
		strings.Contains(words, "65536") {
		t.Errorf("%v\n%s", err, doc)
	}
}

// TestLayerJobs checks the jobs of each system, and that all of a job is started beside the
// neighbours.
func TestLayerJobs(t *testing.T) {
	cfg := &Config{
		Programs: Programs{Mpibench: "mpibench"}, CPUs: plan.CPUList{0, 1}, Each: time.Second,
		Beside: Loops, Layers: true,
	}
	lines := map[string]string{}
	for _, s := range cfg.systems() {
		for _, j := range cfg.jobs() {
			if !s.takes(j) {
				continue
			}
			name, args := s.line(j, cfg)
			line := strings.Join(append([]string{name}, args...), " ")
			lines[s.name] += line + "\n"
			if !strings.HasPrefix(line, "mpibench beside loops 0,1 ") {
				t.Errorf("%s: %s", s.name, line)
			}
		}
	}
	for name, want := range map[string][]string{
		"call adaptive": {
			" mpibench layer call --wait adaptive --test latency,bw --size 8,65536 ",
		},
		"stream busy 1500": {
			"stream --wait busy --test bw --size 65536 --duration 1s --cpus 0,1 --mtu 1472\n",
			"stream --wait busy --test datagrams --size 1024 ",
		},
		"TCP poll 1500": {" 0,1 1000 64 latency,bw 8,65536 poll 1500\n"},
	} {
		if strings.Count(lines[name], "\n") != len(want) {
			t.Errorf("%s: %s", name, lines[name])
		}
		for _, w := range want {
			if !strings.Contains(lines[name], w) {
				t.Errorf("%s: no %q in %s", name, w, lines[name])
			}
		}
	}
}
