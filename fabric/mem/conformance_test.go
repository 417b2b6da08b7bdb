package mem_test

import (
	"testing"

	"gobtl/fabric"
	"gobtl/fabric/fabrictest"
	"gobtl/fabric/mem"
)

func fixture(name string, cfg mem.Config) fabrictest.Fixture {
	nw := mem.New(cfg)
	return fabrictest.Fixture{
		Name: name,
		Open: func(tb testing.TB, cfg fabric.DomainConfig) fabric.Domain {
			tb.Helper()
			d, err := nw.Open(cfg)
			if err != nil {
				tb.Fatal(err)
			}
			return d
		},
	}
}

func TestConformance(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  mem.Config
	}{
		{"default", mem.Config{}},
		{"no inject", mem.Config{InjectBytes: -1}},
		{"all inject", mem.Config{InjectBytes: 1472}},
		{"small", mem.Config{
			MTUBytes: 256, InjectBytes: 64, TxDepth: 40, RxDepth: 40,
			QueueDatagrams: 33,
		}},
		{"jumbo without gather", mem.Config{MTUBytes: 9000, NoGather: true}},
	} {
		t.Run(tc.name, func(t *testing.T) { fabrictest.Run(t, fixture("mem "+tc.name, tc.cfg)) })
	}
}

func BenchmarkFabric(b *testing.B) { fabrictest.Bench(b, fixture("mem", mem.Config{})) }
