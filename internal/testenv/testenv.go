package testenv

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
)

// TB is the subset of the methods of testing.TB that package testenv calls.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
}

const seedVariable = "GOBTL_TEST_SEED"

// Seed returns the seed for all random numbers of a test. The seed is the value of the environment
// variable GOBTL_TEST_SEED. If GOBTL_TEST_SEED is not set, the seed is the argument "fallback", or
// a random number if "fallback" is 0. Seed logs the seed, so that a failed test can be repeated.
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

// Missing skips the test, with a message that names the missing program or device. If the
// environment variable CI is set, Missing fails the test instead of skipping it, because a CI
// machine must have all programs and devices that the tests need.
func Missing(tb TB, format string, args ...any) {
	tb.Helper()
	if os.Getenv("CI") != "" {
		tb.Fatalf(format, args...)
		return
	}
	tb.Skipf(format, args...)
}

// Need returns the path of a program. If the program does not exist, Need calls Missing.
func Need(tb TB, program, debianPackage string) string {
	tb.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		Missing(tb, "needs %s (Debian: %s): %v", program, debianPackage, err)
	}
	return path
}
