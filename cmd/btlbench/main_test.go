package main

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"

	// In-process tests need a network that reaches within the process.
	_ "gobtl/fabric/mem"
	"gobtl/internal/testenv"
)

// envRunMain makes the test binary behave as the program, for the processes that pair starts.
const envRunMain = "BTLBENCH_TEST_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(envRunMain) != "" {
		main()
	}
	testenv.HearSignals()
	os.Exit(m.Run())
}

// output collects what concurrent commands write.
type output struct {
	lock sync.Mutex
	buf  bytes.Buffer
	// wrote is signalled, without blocking, after each write.
	wrote chan struct{}
}

func newOutput() *output { return &output{wrote: make(chan struct{}, 1)} }

func (o *output) Write(b []byte) (int, error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	select {
	case o.wrote <- struct{}{}:
	default:
	}
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.buf.String()
}

// runCLI runs a command line in this process.
func runCLI(args ...string) (status int, stdout, stderr string) {
	out, errOut := newOutput(), newOutput()
	status = run(args, out, errOut)
	return status, out.String(), errOut.String()
}

// checkOneLine reports a message that is not exactly one line with the program's name, or that
// shows a stack trace.
func checkOneLine(t *testing.T, stderr string) {
	t.Helper()
	if strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "btlbench: ") {
		t.Errorf("not one line of the program:\n%s", stderr)
	}
	if strings.Contains(stderr, "goroutine ") || strings.Contains(stderr, "panic") {
		t.Errorf("a stack trace:\n%s", stderr)
	}
}
