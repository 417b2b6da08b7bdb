//go:build unix

package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"gobtl/internal/testenv"
)

// startPrometheus starts a server that scrapes target every second, and returns its address.
func startPrometheus(t *testing.T, target string) (addr string) {
	t.Helper()
	program, dir := testenv.Need(t, "prometheus", "prometheus"), t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs:\n"+
		"- {job_name: gobtl, static_configs: [{targets: [%q]}]}\n", target)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, "--config.file", config, "--web.listen-address", addr,
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--log.level", "error")
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // killed, so never nil
	})
	return addr
}

// query asks a Prometheus server for the value of an expression; false while it has none.
func query(t *testing.T, addr, expression string) (float64, bool) {
	t.Helper()
	response, err := http.Get("http://" + addr + "/api/v1/query?query=" + url.QueryEscape(expression))
	if err != nil {
		return 0, false // not listening yet
	}
	defer response.Body.Close()
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	if json.NewDecoder(response.Body).Decode(&answer) != nil || len(answer.Data.Result) != 1 {
		return 0, false
	}
	text, _ := answer.Data.Result[0].Value[1].(string)
	value, err := strconv.ParseFloat(text, 64)
	return value, err == nil
}

// TestPrometheus has a real Prometheus scrape a server during a run with losses: what it stores
// moves during the run, and is in the end what the server shows.
func TestPrometheus(t *testing.T) {
	needUDP(t)
	server, addr := startServe(t, "--metrics", "127.0.0.1:0")
	var metrics string
	eventually(t, "the server tells where its metrics are", func() bool {
		metrics = metricsURL.FindString(server.stderr.String())
		return metrics != ""
	})
	target, err := url.Parse(metrics)
	if err != nil || target.Host == "" {
		t.Fatalf("metrics at %q: %v", metrics, err)
	}
	prometheus := startPrometheus(t, target.Host)
	const retransmits = "sum(gobtl_retransmits_total)"
	eventually(t, "Prometheus scrapes", func() bool {
		v, ok := query(t, prometheus, "up")
		return ok && v == 1
	})
	client := start(t, "run", addr, "--test", "lat", "--size", "8", "--duration", "4s",
		"--rounds", "1", "--warmup", "0", "--impair", "loss=1%,seed=5")
	var early float64
	eventually(t, "Prometheus sees retransmissions", func() bool {
		early, _ = query(t, prometheus, retransmits)
		return early > 0
	})
	if status := client.wait(30 * time.Second); status != 0 {
		t.Fatalf("status %d, %s", status, client.stderr.String())
	}
	var shown, stored float64
	eventually(t, "Prometheus stores what the server shows", func() bool {
		shown = scrape(t, metrics)["gobtl_retransmits_total"]
		stored, _ = query(t, prometheus, retransmits)
		return stored == shown
	})
	if stored <= early {
		t.Errorf("the counter stood still during the run: %v, then %v", early, stored)
	}
}
