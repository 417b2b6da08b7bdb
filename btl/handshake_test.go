package btl

import (
	"strings"
	"testing"
)

// A rule of the handshake is a row: what must be so (+), must not be so (-) or does not matter
// (left out), by name, and what follows. The first row that fits holds.
type handshakeRule struct {
	when string
	then string
}

// rule finds the row that fits the facts, and notes that it was used.
func rule(t *testing.T, rules []handshakeRule, facts map[string]bool, used map[int]bool) string {
	t.Helper()
	for i, r := range rules {
		fits := true
		for _, word := range strings.Fields(r.when) {
			fact, known := facts[word[1:]]
			if !known {
				t.Fatalf("no fact %q", word)
			}
			fits = fits && fact == (word[0] == '+')
		}
		if fits {
			used[i] = true
			return r.then
		}
	}
	t.Fatalf("no rule for %v", facts)
	return ""
}

var handshakeStates = map[string]endpointState{
	"connecting": stateConnecting, "accepting": stateAccepting, "connected": stateConnected,
	"lingering": stateLingering,
}

// Whose packet it is, in words: docs/protocol.md has them as "Return of the tag" and "Simultaneous
// opening".
var claimRules = []handshakeRule{
	{"+settled +same", "taken"},
	{"+settled -same", "ignored"},
	{"+bound +same", "taken"},
	{"+bound -connecting", "ignored"},
	{"+free", "binds"},
	{"+bound -stale", "ignored"},
	{"+bound +stale", "restarts"},
	{"+lower", "restarts"},
	{"-lower", "contested"},
}

// Every combination of facts has the outcome of the table, and each row of the table holds
// somewhere.
func TestHandshakeClaims(t *testing.T) {
	names := [...]string{
		claimIgnored: "ignored", claimTaken: "taken", claimBinds: "binds",
		claimRestarts: "restarts", claimContested: "contested",
	}
	used := map[int]bool{}
	for state, s := range handshakeStates {
		for bits := range 1 << 6 {
			f := helloFrom{
				state: s, settled: bits&1 != 0, bound: bits&2 != 0, same: bits&4 != 0,
				free: bits&8 != 0, stale: bits&16 != 0, lower: bits&32 != 0,
			}
			facts := map[string]bool{
				"settled": f.settled, "bound": f.bound, "same": f.same, "free": f.free,
				"stale": f.stale, "lower": f.lower, "connecting": state == "connecting",
			}
			want := rule(t, claimRules, facts, used)
			if got := names[f.claim()]; got != want {
				t.Errorf("%s, %+v: %s, want %s", state, f, got, want)
			}
			// Of two modules that each know another end of the other, one gives in.
			other := f
			other.lower = !f.lower
			if f.claim() == claimContested && other.claim() != claimRestarts {
				t.Errorf("%s, %+v: neither side gives in", state, f)
			}
		}
	}
	if len(used) != len(claimRules) {
		t.Errorf("%d of %d rules hold somewhere", len(used), len(claimRules))
	}
}

// What a proof of the address does to the endpoint that the address led to before.
var outcomeRules = []handshakeRule{
	{"-known", "alone"},
	{"-sameLife +connected +newer", "late"},
	{"-sameLife +connecting +named +newer", "undecided"},
	{"-sameLife", "restarted"},
	{"+connected", "supersedes"},
	{"+connecting -told", "merges"},
	{"+connecting +told", "alone"},
	{"-connecting -connected", "alone"},
}

func TestHandshakeOutcomes(t *testing.T) {
	names := [...]string{
		outcomeAlone: "alone", outcomeLate: "late", outcomeUndecided: "undecided",
		outcomeRestarted: "restarted", outcomeSupersedes: "supersedes", outcomeMerges: "merges",
	}
	used := map[int]bool{}
	for state, s := range handshakeStates {
		for bits := range 1 << 5 {
			p := proof{
				state: s, known: bits&1 != 0, sameLife: bits&2 != 0, newer: bits&4 != 0,
				named: bits&8 != 0, told: bits&16 != 0,
			}
			facts := map[string]bool{
				"known": p.known, "sameLife": p.sameLife, "newer": p.newer, "named": p.named,
				"told": p.told, "connecting": state == "connecting", "connected": state == "connected",
			}
			want := rule(t, outcomeRules, facts, used)
			if got := names[p.outcome()]; got != want {
				t.Errorf("%s, %+v: %s, want %s", state, p, got, want)
			}
		}
	}
	if len(used) != len(outcomeRules) {
		t.Errorf("%d of %d rules hold somewhere", len(used), len(outcomeRules))
	}
}
