package btlprom_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"gobtl/btl"
	"gobtl/btl/btlprom"
)

func TestLabelValue(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "eth0": "eth0", "büro": "büro", "\xffeth\xc3": `\xFFeth\xC3`, "a\xe2\x82": `a\xE2\x82`,
		"\uFFFD": "\uFFFD",
	} {
		if got := btlprom.LabelValue(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// One label that is not UTF-8 is escaped, and the scrape goes on.
func TestScrapeOfOddLabel(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	labels := prometheus.Labels{"device": "eth\xff"}
	registry.MustRegister(btlprom.NewCollector(func() btl.Stats { return btl.Stats{} }, labels))
	families, err := registry.Gather()
	if err != nil || len(families) == 0 {
		t.Fatalf("%d metrics, %v", len(families), err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "device" && l.GetValue() != `eth\xFF` {
					t.Errorf("%s: label %q", f.GetName(), l.GetValue())
				}
			}
		}
	}
	if labels["device"] != "eth\xff" {
		t.Error("the caller's labels have changed")
	}
}
