package testenv_test

import (
	"fmt"
	"strings"
	"testing"

	"gobtl/internal/testenv"
)

// ending is a test whose end can be examined.
type ending struct{ log, skipped, failed string }

func (e *ending) Helper()                   {}
func (e *ending) Logf(f string, a ...any)   { e.log = fmt.Sprintf(f, a...) }
func (e *ending) Skipf(f string, a ...any)  { e.skipped = fmt.Sprintf(f, a...) }
func (e *ending) Fatalf(f string, a ...any) { e.failed = fmt.Sprintf(f, a...) }

func TestMissing(t *testing.T) {
	for _, ci := range []string{"", "true"} {
		t.Setenv("CI", ci)
		var e ending
		path := testenv.Need(&e, "no-such-program-anywhere", "nothing")
		want := "needs no-such-program-anywhere (Debian: nothing): "
		if said := e.skipped + e.failed; path != "" || !strings.HasPrefix(said, want) {
			t.Errorf("CI=%q: %q, %q", ci, path, said)
		}
		if (e.failed != "") != (ci != "") || (e.skipped != "") != (ci == "") {
			t.Errorf("CI=%q: skipped %q, failed %q", ci, e.skipped, e.failed)
		}
	}
	var e ending
	if path := testenv.Need(&e, "go", "golang"); path == "" || e != (ending{}) {
		t.Errorf("%q, %+v", path, e)
	}
}

func TestSeed(t *testing.T) {
	t.Setenv("GOBTL_TEST_SEED", "")
	var e ending
	if seed := testenv.Seed(&e, 7); seed != 7 || e.log != "GOBTL_TEST_SEED=7" {
		t.Errorf("%d, %q", seed, e.log)
	}
	if a, b := testenv.Seed(&e, 0), testenv.Seed(&e, 0); a == b {
		t.Errorf("%d is no fresh seed", a)
	}
	t.Setenv("GOBTL_TEST_SEED", "0x10")
	if seed := testenv.Seed(&e, 7); seed != 16 || e.log != "GOBTL_TEST_SEED=16" {
		t.Errorf("%d, %q", seed, e.log)
	}
	t.Setenv("GOBTL_TEST_SEED", "many")
	if testenv.Seed(&e, 7); !strings.HasPrefix(e.failed, "GOBTL_TEST_SEED: ") {
		t.Errorf("%q", e.failed)
	}
}
