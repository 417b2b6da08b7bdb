package systems

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestUCXNotices has a program in the place of ucx_perftest, which writes down how it was called:
// one system of the table of one host asks for error handling, with all transports, the others not.
func TestUCXNotices(t *testing.T) {
	dir := t.TempDir()
	said := filepath.Join(dir, "said")
	script := "#!/bin/sh\necho \"$UCX_TLS $*\" >>" + said + "\nexit 1\n"
	if err := os.WriteFile(filepath.Join(dir, "ucx_perftest"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	h := NewHost(nil, time.Millisecond, 5*time.Second, dir)
	var asked []string
	for _, s := range All(OneHost, Program{}) {
		u, ok := s.(*ucx)
		if !ok {
			continue
		}
		_ = os.Remove(said) // of the system before
		if _, err := u.once(t.Context(), h, Point{Latency, 8, 1}); err == nil {
			t.Fatal("a program that fails measures")
		}
		b, err := os.ReadFile(said)
		if err != nil {
			t.Fatal(err)
		}
		line, _, _ := strings.Cut(string(b), "\n")
		if strings.Contains(line+" ", " -e ") {
			asked = append(asked, u.about.ID+" "+strings.Fields(line)[0])
		}
	}
	if len(asked) != 1 || asked[0] != "ucx-errors all" {
		t.Errorf("with error handling: %q", asked)
	}
}
