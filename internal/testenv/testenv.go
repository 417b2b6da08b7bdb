package testenv

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
)

// TB is the part of testing.TB that is needed here.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// seedVariable names the seed that tests take instead of their own.
const seedVariable = "GOBTL_TEST_SEED"

// Seed is the seed of everything random in a test: GOBTL_TEST_SEED, or fallback, or a fresh one for
// 0. It is logged, so that a failure can be run again.
func Seed(tb TB, fallback uint64) uint64 {
	tb.Helper()
	seed := fallback
	if s := os.Getenv(seedVariable); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 0, 64); err != nil {
			tb.Fatalf("%s: %v", seedVariable, err)
		}
	} else if seed == 0 {
		seed = rand.Uint64()
	}
	tb.Logf("%s=%d", seedVariable, seed)
	return seed
}

// Missing skips a test with a message that names the missing thing. If the variable CI is set it
// fails the test, because CI must have everything.
func Missing(tb TB, format string, args ...any) {
	tb.Helper()
	if os.Getenv("CI") != "" {
		tb.Fatalf(format, args...)
		return
	}
	tb.Skipf(format, args...)
}

// Need returns the path of a program. If the program does not exist it calls Missing.
func Need(tb TB, program, debianPackage string) string {
	tb.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		Missing(tb, "needs %s (Debian: %s): %v", program, debianPackage, err)
	}
	return path
}
