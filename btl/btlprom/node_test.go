package btlprom_test

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"gobtl"
	"gobtl/btl/btlprom"
)

// TestNode: the metrics of a Node are those of all its links, each with its address. A Node of Open
// has no link before it dials.
func TestNode(t *testing.T) {
	server, err := gobtl.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client, err := gobtl.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := server.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(
		btlprom.NewNodeCollector(server.Stats, prometheus.Labels{"node": "server"}),
		btlprom.NewNodeCollector(client.Stats, prometheus.Labels{"node": "client"}),
	)
	const metric = "gobtl_packets_in_flight"
	check := func(links int) {
		t.Helper()
		if n, err := testutil.GatherAndCount(registry, metric); err != nil || n != links {
			t.Errorf("%d links in the metrics, want %d: %v", n, links, err)
		}
	}
	check(1)
	if _, err := client.Dial(t.Context(), server.Address()); err != nil {
		t.Fatal(err)
	}
	check(2)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{server.Address(), client.Links()[0].Address()} {
		found := false
		for _, f := range families {
			found = found || f.GetName() == metric && strings.Contains(f.String(), want)
		}
		if !found {
			t.Errorf("the link %s is not in the metrics", want)
		}
	}
}
