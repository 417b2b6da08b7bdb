//go:build unix

package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gobtl/cmd/btlrun/agent"
)

// heard is a reader of output that passes on what it reads.
type heard chan string

func (h heard) Write(b []byte) (int, error) {
	h <- string(b)
	return len(b), nil
}

// saying returns a remote shell that writes 90000 lines to standard error, and then writes to
// standard output what the agent of a host says: rank 0 writes a line, and ends.
func saying(t *testing.T, line string) []string {
	t.Helper()
	end, err := json.Marshal(agent.Exit{})
	if err != nil {
		t.Fatal(err)
	}
	said := bytes.NewBufferString(agent.Greeting)
	for _, f := range []agent.Frame{
		{Kind: agent.KindStdout, Body: []byte(line)}, {Kind: agent.KindExit, Body: end},
	} {
		if err := agent.NewWriter(said).Write(f); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "frames")
	if err := os.WriteFile(file, said.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"sh", "-c", "seq 1 90000 >&2; exec cat '" + file + "'"}
}

// Nobody reads standard error, where the remote shell of a host writes: the ranks of the host go
// on. Some lines wait for the reader of standard error, and the others are counted.
func TestRemarksUnread(t *testing.T) {
	t.Parallel()
	errs, out, ended := &gated{gate: make(stuck)}, make(heard), make(chan struct{})
	shell := saying(t, "hello\n")
	go func() {
		defer close(ended)
		status, err := Run(Options{
			Size: 1, Hosts: []Host{{Name: "far", Slots: 1}}, Args: []string{"true"}, Dir: "/",
			Rsh: shell, Agent: "btlrun", Stdout: out, Stderr: errs,
			Grace: time.Second, StartTimeout: time.Minute,
		})
		if status != 0 || err != nil {
			t.Errorf("status %d, %v", status, err)
		}
	}()
	select {
	case text := <-out:
		if text != "hello\n" {
			t.Errorf("the rank writes %q", text)
		}
	case <-time.After(20 * time.Second):
		t.Error("output of a rank waits for the reader of standard error")
		go func() { <-out }() // The output comes late.
	}
	close(errs.gate)
	<-ended
	lines, dropped, last := errs.read.String(), 0, 0
	for line := range strings.Lines(lines) {
		var n int
		if _, err := fmt.Sscanf(line, "btlrun: far: lines dropped here: %d", &n); err == nil {
			dropped += n
			last += n
		} else if last++; line != fmt.Sprintf("btlrun: far: %d\n", last) {
			t.Fatalf("%q is line %d", line, last)
		}
	}
	if dropped == 0 || last != 90000 {
		t.Errorf("%d lines, %d of them dropped", last, dropped)
	}
}
