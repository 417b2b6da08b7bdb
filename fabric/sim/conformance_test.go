package sim_test

import (
	"strconv"
	"testing"

	"gobtl/fabric"
	"gobtl/fabric/fabrictest"
	"gobtl/fabric/sim"
)

// stepped is a domain whose Polls run the events that are due now, because the suite does not know
// virtual time.
type stepped struct {
	fabric.Domain
	nw *sim.Network
}

type steppedEndpoint struct {
	fabric.Endpoint
	nw *sim.Network
}

func (d stepped) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	e, err := d.Domain.OpenEndpoint(cfg)
	if err != nil {
		return nil, err
	}
	return &steppedEndpoint{e, d.nw}, nil
}

func (e *steppedEndpoint) Land(mem []byte, headBytes int) bool {
	return e.Endpoint.(fabric.Lander).Land(mem, headBytes)
}

func (e *steppedEndpoint) Poll(out []fabric.Completion) (int, error) {
	e.nw.RunUntil(e.nw.Now())
	return e.Endpoint.Poll(out)
}

func TestConformance(t *testing.T) {
	for name, cfg := range map[string]sim.Config{
		"default":    {},
		"no inject":  {InjectBytes: -1},
		"all inject": {InjectBytes: 1472},
		"small": {
			MTUBytes: 256, InjectBytes: 64, TxDepth: 40, RxDepth: 40,
			QueueDatagrams: 33,
		},
		"jumbo without gather": {MTUBytes: 9000, NoGather: true},
		"with memory":          {Memory: new(sim.Memory)},
		"ahead":                {PollAhead: 7},
	} {
		t.Run(name, func(t *testing.T) {
			nw := newNetwork(t, cfg)
			nodes := 0
			fabrictest.Run(t, fabrictest.Fixture{
				Name: "sim " + name,
				Open: func(tb testing.TB, cfg fabric.DomainConfig) fabric.Domain {
					nodes++
					d, err := nw.Node(strconv.Itoa(nodes)).Open(cfg)
					if err != nil {
						tb.Fatal(err)
					}
					return stepped{d, nw}
				},
				Skip: map[string]string{
					"ConcurrentDomains": "a simulated network belongs to one goroutine",
				},
			})
		})
	}
}
