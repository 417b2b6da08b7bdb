package tidy

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// metricsPage lists the metrics of a module.
const metricsPage = "docs/reference/metrics.md"

var (
	metricListed = regexp.MustCompile("(?m)^\\| `(gobtl_\\w+)")
	metricFound  = regexp.MustCompile(`"(gobtl_\w+)"`)
)

// TestMetricsListed compares the page of metrics with the names in the code of btl/internal/stats
// and btlprom.
func TestMetricsListed(t *testing.T) {
	t.Parallel()
	listed, found := map[string]bool{}, map[string]bool{}
	for _, m := range metricListed.FindAllStringSubmatch(docPages(t)[metricsPage], -1) {
		listed[m[1]] = true
	}
	files, err := Files("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		dir := path.Dir(f.Path)
		if dir != "btl/internal/stats" && dir != "btl/btlprom" || strings.HasSuffix(f.Path, "_test.go") {
			continue
		}
		for _, m := range metricFound.FindAllStringSubmatch(string(f.Data), -1) {
			found[m[1]] = true
		}
	}
	if len(found) < 30 {
		t.Fatalf("%d metrics found: is this the repository?", len(found))
	}
	for name := range found {
		if !listed[name] {
			t.Errorf("%s lacks %s", metricsPage, name)
		}
	}
	for name := range listed {
		if !found[name] {
			t.Errorf("%s has %s, which the code does not", metricsPage, name)
		}
	}
}
