package meet

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

var handshakeStates = map[string]State{
	"connecting": Connecting, "accepting": Accepting, "connected": Connected,
	"lingering": Lingering,
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
		ClaimIgnored: "ignored", ClaimTaken: "taken", ClaimBinds: "binds",
		ClaimRestarts: "restarts", ClaimContested: "contested",
	}
	used := map[int]bool{}
	for state, s := range handshakeStates {
		for bits := range 1 << 6 {
			f := Tagged{
				State: s, Settled: bits&1 != 0, Bound: bits&2 != 0, Same: bits&4 != 0,
				Free: bits&8 != 0, Stale: bits&16 != 0, Lower: bits&32 != 0,
			}
			facts := map[string]bool{
				"settled": f.Settled, "bound": f.Bound, "same": f.Same, "free": f.Free,
				"stale": f.Stale, "lower": f.Lower, "connecting": state == "connecting",
			}
			want := rule(t, claimRules, facts, used)
			if got := names[f.Claim()]; got != want {
				t.Errorf("%s, %+v: %s, want %s", state, f, got, want)
			}
			// Of two modules that each know another end of the other, one gives in.
			other := f
			other.Lower = !f.Lower
			if f.Claim() == ClaimContested && other.Claim() != ClaimRestarts {
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
	{"-known", "continues"},
	{"-sameLife +connected +newer", "late"},
	{"-sameLife +connecting +named +newer", "undecided"},
	{"-sameLife", "restarted"},
	{"+connected", "supersedes"},
	{"+connecting -told", "merges"},
	{"+connecting +told", "continues"},
	{"-connecting -connected", "continues"},
}

func TestHandshakeOutcomes(t *testing.T) {
	names := [...]string{
		OutcomeContinues: "continues", OutcomeLate: "late", OutcomeUndecided: "undecided",
		OutcomeRestarted: "restarted", OutcomeSupersedes: "supersedes", OutcomeMerges: "merges",
	}
	used := map[int]bool{}
	for state, s := range handshakeStates {
		for bits := range 1 << 5 {
			p := Proof{
				State: s, Known: bits&1 != 0, SameLife: bits&2 != 0, Newer: bits&4 != 0,
				Named: bits&8 != 0, Told: bits&16 != 0,
			}
			facts := map[string]bool{
				"known": p.Known, "sameLife": p.SameLife, "newer": p.Newer, "named": p.Named,
				"told": p.Told, "connecting": state == "connecting", "connected": state == "connected",
			}
			want := rule(t, outcomeRules, facts, used)
			if got := names[p.Outcome()]; got != want {
				t.Errorf("%s, %+v: %s, want %s", state, p, got, want)
			}
		}
	}
	if len(used) != len(outcomeRules) {
		t.Errorf("%d of %d rules hold somewhere", len(used), len(outcomeRules))
	}
}
