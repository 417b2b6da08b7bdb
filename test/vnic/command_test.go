//go:build linux

package vnic

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCommandLine: a mistake is one line that says what to do, and the right status.
func TestCommandLine(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.toml")
	const text = "name = \"lab\"\n[[host]]\nname = \"a\"\n"
	if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	good := filepath.Join(dir, "good.toml")
	if err := os.WriteFile(good, []byte("name = \"lab\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	agent := "agent --host a --manager lab --em 127.0.0.1:1 --socket " + dir + "/s.sock "
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"check " + good, 0, "manager lab, 0 hosts"},
		{"check " + bad, 1, "lid is 0"},
		{"check " + dir + "/none", 1, "no such file"},
		{"em " + bad, 1, "lid is 0"},
		{"em " + good + " --listen nowhere", 2, "write HOST:PORT"},
		{"agent", 2, "missing flags"},
		{agent + "--queues 99", 2, "--queues must be 1 to 8"},
		{agent + "--fd x", 2, "PORT=FD"},
		{agent + "--device a/b", 2, "--device"},
		{agent + "--device v%d%d", 2, "%d once"},
		{agent + "--impair loss=7", 2, "--impair"},
		{agent + "--node 203.0.113.7", 1, "it is at "},
		{agent + "--fd 1=99", 2, "nobody has handed over descriptor 99"},
		{agent + "--host= ", 2, "--host: \"\": want"},
		{agent + "--manager=\x01", 2, "printable characters"},
		{"agent --host a --manager lab --em=", 2, "write HOST:PORT"},
		{agent + "--em=127.0.0.1:1,,127.0.0.1:2", 2, "write HOST:PORT"},
		{agent + "--provider pigeon", 1, "no fabric"},
		{"show ports --socket " + dir + "/none", 1, "nobody answers"},
		{"show everything", 2, "must be one of"},
		{"ping-mac 1:2", 2, "no MAC address"},
		{"ping-mac 02:00:00:00:00:01 --interval=-1s", 2, "--interval 0 or more"},
		{"ping-mac ff:ff:ff:ff:ff:ff", 2, "group address"},
		{"ping-mac 02:00:00:00:00:01 --port 300", 2, "1 to 255"},
		{"dump 0", 2, "1 to 255"},
		{"dump 256", 2, "1 to 255"},
		{"dump 1 --duration=-1s", 2, "--duration must be positive"},
		{"dump 1 --socket " + dir + "/none", 1, "nobody answers"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // one that passes goes on
		out, err := exec.CommandContext(ctx, binary, strings.Fields(c.args)...).CombinedOutput()
		cancel()
		status := 0
		if err != nil {
			status = exitStatus(t, err)
		}
		if status != c.status || !strings.Contains(string(out), c.want) ||
			strings.Count(string(out), "\n") != 1 {
			t.Errorf("btlvnic %s: status %d, want %d, with %q:\n%s", c.args, status, c.status, c.want, out)
		}
	}
}

func exitStatus(t *testing.T, err error) int {
	t.Helper()
	exit, ok := err.(*exec.ExitError) //nolint:errorlint // as Output returns it
	if !ok {
		t.Fatal(err)
	}
	return exit.ExitCode()
}
