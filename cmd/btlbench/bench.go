package main

import (
	"errors"
	"fmt"
	"time"
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

// combination is one test and size, on the layers that can run it.
type combination struct {
	test      string
	sizeBytes int
	layers    []string
}

func newDocument(command string, f *benchFlags) *document {
	return &document{
		Schema: schema, Version: version(), StartedAt: time.Now().UTC().Truncate(time.Millisecond),
		Command: command, Config: *f, Runs: []runRecord{}, Skipped: []skipRecord{},
	}
}

// run measures everything.
func (b *bench) run() error {
	begin := time.Now()
	defer func() { b.doc.ElapsedS = round3(time.Since(begin).Seconds()) }()
	b.doc.Sides.Client, b.doc.Sides.Server = b.session.side.facts(), b.session.remote
	plan := b.plan()
	total := 0
	for i := range plan {
		total += len(plan[i].layers) * b.flags.rounds()
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
			c := combination{test: test, sizeBytes: sizeBytes}
			for _, name := range b.flags.layers() {
				if reason := skipReasonOf(offers, name, test, sizeBytes); reason != "" {
					b.doc.Skipped = append(b.doc.Skipped, skipRecord{
						Test: test, Layer: name, SizeBytes: sizeBytes, Reason: reason,
					})
					continue
				}
				c.layers = append(c.layers, name)
			}
			if len(c.layers) > 0 {
				plan = append(plan, c)
			}
		}
	}
	return plan
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

// measure runs all rounds of a test and size. The layers take turns, and the one that began a round
// comes last in the next, so that neither has the better half of whatever the machine is doing.
func (b *bench) measure(c *combination) error {
	measurements := make(map[string]*measurement)
	scratch := make(map[string]*hist)
	window := windowFor(b.flags.Window, c.sizeBytes)
	for _, name := range c.layers {
		measurements[name] = newMeasurement(c.test, name, c.sizeBytes, window)
		if isLatency(c.test) {
			scratch[name] = newHist()
		}
	}
	defer b.report(c, measurements)
	rounds := b.flags.rounds()
	for i := range rounds {
		for turn := range c.layers {
			name := c.layers[(turn+i)%len(c.layers)]
			if b.env.ctx.Err() != nil {
				return b.env.cause()
			}
			b.bar.begin(fmt.Sprintf("%s %s %s", c.test, sizeText(c.sizeBytes), name))
			o, err := b.session.runRound(b.spec(c, name, window, i, rounds), scratch[name])
			if err != nil {
				return err
			}
			measurements[name].add(o)
			b.bar.step()
		}
	}
	return nil
}

// spec describes round i of a measurement.
func (b *bench) spec(c *combination, layer string, window, i, rounds int) *roundSpec {
	f := b.flags
	part := f.measured().split(i, rounds)
	return &roundSpec{
		Test: c.test, Layer: layer, SizeBytes: c.sizeBytes, Window: window, Verify: f.Verify,
		WarmupMessages: f.Warmup.Messages, WarmupNs: int64(f.Warmup.Time),
		Messages: part.Messages, DurationNs: int64(part.Time),
		PeerTimeoutNs: int64(f.PeerTimeout),
	}
}

// report writes a combination's measurements into the document, if there are any.
func (b *bench) report(c *combination, measurements map[string]*measurement) {
	raw := measurements[layerRaw]
	for _, name := range c.layers {
		m := measurements[name]
		if len(m.rounds) == 0 {
			continue
		}
		base := raw
		if name == layerRaw {
			base = nil
		}
		facts := b.doc.Sides.Client.Layers[name]
		b.doc.Runs = append(b.doc.Runs, m.record(b.doc.Sides.Client.Provider.Provider, facts, base))
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
