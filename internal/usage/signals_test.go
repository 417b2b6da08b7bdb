package usage

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// endsAsked makes this binary print the signals that end it.
const endsAsked = "GOBTL_TEST_ENDS"

func TestMain(m *testing.M) {
	if os.Getenv(endsAsked) != "" {
		fmt.Println(Ends())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestEnds checks that signals that a shell makes its background jobs ignore stay ignored.
func TestEnds(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]string{
		`"$0"`:                  "[terminated interrupt hangup]\n",
		`"$0" & wait $!`:        "[terminated hangup]\n",
		`trap "" INT; "$0"`:     "[terminated hangup]\n",
		`trap "" HUP; "$0"`:     "[terminated interrupt]\n",
		`trap "" INT HUP; "$0"`: "[terminated]\n",
	} {
		for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
			if signal.Ignored(s) { // The test itself is a background job.
				want = strings.Replace(want, " "+s.String(), "", 1)
			}
		}
		cmd := exec.Command("sh", "-c", script, own)
		cmd.Env = append(os.Environ(), endsAsked+"=1")
		if out, err := cmd.Output(); err != nil || string(out) != want {
			t.Errorf("%s: %q, %v, want %q", script, out, err, want)
		}
	}
}
