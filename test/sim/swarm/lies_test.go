package swarm

import (
	"strings"
	"testing"
)

// Each lie about what happened must be reported, with words that name it.
func TestJudgeNoticesLies(t *testing.T) {
	for _, c := range []struct {
		kind lieKind
		want []string // one of these
	}{
		{lieDeliverTwice, []string{"delivered 2 times", "were delivered,"}},
		{lieForgetDelivery, []string{"delivered 0 times", "not delivered", " delivered"}},
		{lieAlter, []string{"altered", "that nobody sent"}},
		{lieCut, []string{"was delivered with"}},
		{lieDoneTwice, []string{"after OnDone("}},
		{lieForgetDone, []string{"have not ended", "had not ended", "never ended"}},
		{lieWrongError, []string{"an error that cannot be"}},
		{lieNoHandler, []string{"the peer has a handler"}},
		{lieDead, []string{"less than", "a packet of it arrived"}},
		{lieRestarted, []string{"has not been restarted"}},
		{lieRefusedPut, []string{
			"and it was right", "the peer has a handler", "was refused, and gave a notice",
		}},
		{lieClosed, []string{"nobody closed it here", "its time is not over"}},
		{liePeerClosed, []string{
			"the peer has not closed it", "the peer has closed nothing", "its endpoint with",
		}},
		{lieUnreachable, []string{"it was connected"}},
		{lieRefused, []string{"it was connected"}},
		{lieStalled, []string{"the peer is there, and may go on"}},
		{lieEventTwice, []string{"connected twice", "after its last one"}},
		{lieWrongEvent, []string{"an error that cannot be", "no reason to be closed"}},
		{lieMisroute, []string{
			"another connection", "not to the life", "was delivered to tag", "from behind a fence",
		}},
		{lieScribble, []string{
			"no put was aimed there", "changed after", "is neither as before",
			"this byte is not its", "its bytes are not there",
		}},
		// A flush that is told too early may stand before a refusal as well, which is found first.
		{lieFlush, []string{"flushed, but", "flushed without a word"}},
	} {
		t.Run(c.kind.String(), func(t *testing.T) {
			t.Parallel()
			found := 0
			for seed := uint64(1); seed <= lieSeeds; seed++ {
				after := int(seed) * 3
				switch c.kind {
				case lieScribble, lieWrongEvent, lieRefusedPut, lieEventTwice: // there are few chances in a run
					after = int(seed) % 3
				default:
				}
				res := Run(seed, Options{
					Lie: Lie{kind: c.kind, after: after}, Without: quiet, PacketsMax: lieFew,
				})
				if res.Err == nil {
					continue // the run gave no occasion, or none that says anything
				}
				if !containsAny(res.Err.Error(), c.want) {
					t.Errorf("seed %d: %v, want one of %q", seed, res.Err, c.want)
				}
				found++
			}
			if found < lieSeeds/3 {
				t.Errorf("noticed in %d of %d runs", found, lieSeeds)
			}
		})
	}
}

// Each lie is told in so many short runs.
const (
	lieSeeds = 12
	lieFew   = 1500
)

// quiet leaves out what makes errors right.
var quiet = []string{
	"bitflip", "attack", "crash", "reopen", "isolate", "cut", "cut both ways", "turn", "pause", "pace",
	"slices", "loss", "burst", "reliable",
}

func containsAny(s string, words []string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// Without lies the same runs pass, or the test above proves nothing.
func TestJudgeIsContent(t *testing.T) {
	for seed := uint64(1); seed <= lieSeeds; seed++ {
		if res := Run(seed, Options{Without: quiet, PacketsMax: lieFew}); res.Err != nil {
			t.Errorf("seed %d: %v", seed, res.Err)
		}
	}
}
