//go:build unix

package testenv_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"gobtl/internal/testenv"
)

const signalsVariable = "GOBTL_TEST_HEARS"

// TestHearSignals starts this test again with both signals ignored. A program that the second test
// starts ends by its own signal after HearSignals alone.
func TestHearSignals(t *testing.T) {
	kind := os.Getenv(signalsVariable)
	if kind == "" {
		for _, kind := range []string{"hears", "deaf"} {
			cmd := exec.Command("sh", "-c", `trap "" INT HUP; exec "$0" -test.run=TestHearSignals$`,
				os.Args[0])
			cmd.Env = append(os.Environ(), signalsVariable+"="+kind)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", kind, err, out)
			}
		}
		return
	}
	if kind == "hears" {
		testenv.HearSignals()
	}
	for name, signal := range map[string]syscall.Signal{"INT": syscall.SIGINT, "HUP": syscall.SIGHUP} {
		cmd := exec.Command("sh", "-c", "kill -"+name+" $$")
		_ = cmd.Run() // The signal may end it.
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if ended := status.Signaled() && status.Signal() == signal; ended != (kind == "hears") {
			t.Errorf("SIG%s has ended the program: %v", name, ended)
		}
	}
}
