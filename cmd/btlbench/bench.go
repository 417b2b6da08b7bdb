package main

import (
	"errors"
	"fmt"
	"time"

	"gobtl/internal/report"
)

// bench runs a plan of tests over an open session and fills the report. On an error, an
// interruption included, the report holds what was measured until then.
type bench struct {
	env     *environment
	session *clientSession
	flags   *benchFlags
	bar     *progressBar
	doc     *document
}

// combination is one test, size and window, in variants that take turns.
type combination struct {
	test              string
	sizeBytes, window int
	variants          []variant
}

// variant is a layer that can run the test, or in lat_load one load on such a layer.
type variant struct {
	layer string
	load  load
}

// String names the variant for people.
func (v variant) String() string {
	if v.load == loadIdle {
		return v.layer
	}
	return v.layer + " load " + v.load.String()
}

func newDocument(command string, f *benchFlags) *document {
	return &document{
		Schema: schema, Version: report.Version(), StartedAt: time.Now().UTC().Truncate(time.Millisecond),
		Command: command, Config: *f, Runs: []runRecord{}, Skipped: []skipRecord{},
	}
}

// run measures everything.
func (b *bench) run() error {
	begin := time.Now()
	defer func() { b.doc.ElapsedS = report.Decimals(time.Since(begin).Seconds(), 3) }()
	b.doc.Sides.Client, b.doc.Sides.Server = b.session.side.facts(), b.session.remote
	b.doc.Config.MTU = b.session.side.cfg.MTUBytes
	plan := b.plan()
	total := 0
	for i := range plan {
		total += len(plan[i].variants) * b.flags.rounds()
	}
	b.bar = newProgressBar(b.env.stderr, total)
	defer b.bar.finish()
	for i := range plan {
		if err := b.measure(&plan[i]); err != nil {
			return err
		}
	}
	if len(plan) == 0 {
		return errors.New("nothing to measure: " + b.doc.Skipped[0].Reason)
	}
	return b.verdict()
}

// plan lists what to measure, and notes what cannot be.
func (b *bench) plan() []combination {
	var plan []combination
	offers := append(b.session.side.offers(), b.session.peer...)
	for _, test := range b.flags.Test {
		for _, sizeBytes := range b.flags.sizes(test) {
			var variants []variant
			for _, name := range b.flags.layers() {
				if reason := skipReasonOf(offers, name, test, sizeBytes); reason != "" {
					b.doc.Skipped = append(b.doc.Skipped, skipRecord{
						Test: test, Layer: name, SizeBytes: sizeBytes, Reason: reason,
					})
					continue
				}
				variants = append(variants, b.flags.variants(test, name)...)
			}
			if len(variants) == 0 {
				continue
			}
			for _, window := range b.flags.windows(test, sizeBytes) {
				plan = append(plan, combination{test, sizeBytes, window, variants})
			}
		}
	}
	return plan
}

// variants lists what a test measures on a layer, what the others are compared with first.
func (f *benchFlags) variants(test, layer string) []variant {
	list := []variant{{layer: layer}}
	if test == testLatLoad {
		for _, l := range f.Load {
			list = append(list, variant{layer, l})
		}
	}
	return list
}

// skipReasonOf is skipReason over the offers of both sides.
func skipReasonOf(offers []layerOffer, layer, test string, sizeBytes int) string {
	for i := range offers {
		if offers[i].Layer != layer {
			continue
		}
		if reason := skipReason(&offers[i], test, sizeBytes); reason != "" {
			return reason
		}
	}
	return ""
}

// measure runs all rounds of a combination. Its variants take turns, and the one that began a round
// comes last in the next, so that none has the better part of whatever the machine is doing.
func (b *bench) measure(c *combination) error {
	measurements := make(map[variant]*measurement)
	scratch := make(map[variant]*hist)
	for _, v := range c.variants {
		measurements[v] = newMeasurement(c, v)
		if isLatency(c.test) {
			scratch[v] = newHist()
		}
	}
	defer b.report(c, measurements)
	rounds := b.flags.rounds()
	for i := range rounds {
		for turn := range c.variants {
			v := c.variants[(turn+i)%len(c.variants)]
			if b.env.ctx.Err() != nil {
				return b.env.cause()
			}
			b.bar.begin(fmt.Sprintf("%s %s %v", c.test, sizeText(c.sizeBytes), v))
			o, err := b.session.runRound(b.spec(c, v, i, rounds), scratch[v])
			if err != nil {
				return err
			}
			measurements[v].add(o)
			b.bar.step()
		}
	}
	return nil
}

// spec describes round i of a measurement.
func (b *bench) spec(c *combination, v variant, i, rounds int) *roundSpec {
	f := b.flags
	part := f.measured().split(i, rounds)
	s := &roundSpec{
		Test: c.test, Layer: v.layer, SizeBytes: c.sizeBytes, Window: c.window, Verify: f.Verify,
		WarmupMessages: f.Warmup.Messages, WarmupNs: int64(f.Warmup.Time),
		Messages: part.Messages, DurationNs: int64(part.Time),
		PeerTimeoutNs: int64(f.PeerTimeout),
	}
	if c.test == testLatLoad {
		s.Load, s.LoadBytes = v.load, int(f.LoadSize)
	}
	return s
}

// report writes a combination's measurements into the document, if there are any.
func (b *bench) report(c *combination, measurements map[variant]*measurement) {
	for _, v := range c.variants {
		m := measurements[v]
		if len(m.rounds) == 0 {
			continue
		}
		facts := b.doc.Sides.Client.Layers[v.layer]
		r := m.record(b.doc.Sides.Client.Provider.Provider, facts)
		if v.layer != layerRaw {
			r.RatioToRaw = m.ratioTo(measurements[variant{layer: layerRaw}])
		}
		if v.load != loadIdle {
			r.RatioToIdle = m.ratioTo(measurements[variant{layer: v.layer}])
		}
		b.doc.Runs = append(b.doc.Runs, r)
	}
}

// errVerify is a run in which the transport did not keep its promise.
var errVerify = errors.New("verification failed")

// verdict is an error if a message of the transport was altered, lost or doubled. The bare fabric
// has promised nothing but unaltered bytes.
func (b *bench) verdict() error {
	for i := range b.doc.Runs {
		r := &b.doc.Runs[i]
		missing, doubled := r.MissingMessages, r.DuplicatedMessages
		if r.Layer == layerRaw {
			missing, doubled = 0, 0
		}
		if r.CorruptBytes != 0 || missing != 0 || doubled != 0 {
			return fmt.Errorf("%w in %s %s (%s): %d bytes corrupt, %d messages missing, %d delivered "+
				"again", errVerify, r.Test, sizeText(r.SizeBytes), r.Layer, r.CorruptBytes, missing,
				doubled)
		}
	}
	return nil
}
