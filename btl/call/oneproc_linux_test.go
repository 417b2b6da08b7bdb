package call_test

import (
	"os"
	"os/exec"
	"testing"

	"gobtl/internal/testenv"
)

// TestOneProcessor runs calls and streams, both sides in one process, that has one processor.
func TestOneProcessor(t *testing.T) {
	taskset := testenv.Need(t, "taskset", "util-linux")
	const which = "^(TestCalls|TestCancel|TestStream|TestStreamPauses|TestCancelDoesNotOvertake)$"
	cmd := exec.Command(taskset, "-c", "0", os.Args[0], "-test.run", which, "-test.count=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
