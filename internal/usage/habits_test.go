package usage

import (
	"errors"
	"strings"
	"testing"
)

// A flag of another program gets an error that says what to write here.
func TestHabits(t *testing.T) {
	for _, tc := range []struct{ program, text, want string }{
		{"btlbench run", `unknown flag -p, did you mean one of "-h", "-t"?`, "run HOST:PORT"},
		{"btlbench", "unknown flag -s", `write "btlbench serve"`},
		{"btlbench", "unknown flag -q", "unknown flag -q (see"},
		{"mpibench", `unknown flag -i, did you mean one of "-h"?`, "--duration"},
		{"btlrun", mpirunRanks, "unknown flag -np: write -n N"},
		{"mpibench", mpirunRanks, mpirunRanks},
	} {
		if got := Misuse(tc.program, errors.New(tc.text)); !strings.Contains(got, tc.want) {
			t.Errorf("%s: %s: %q, want %q", tc.program, tc.text, got, tc.want)
		}
	}
}
