//go:build linux

package shm

import (
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gobtl/internal/testenv"
)

// TestStrangers makes processes insert a foreign name. One process belongs to another user, and one
// process has its own /dev/shm. Insert must refuse the name, with the reason.
func TestStrangers(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Missing(t, "root, to be two users and to mount")
	}
	self := filepath.Join(t.TempDir(), "peer") // a folder where another user may run the file
	for dir := filepath.Dir(self); dir != filepath.Clean(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(self, program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	const mount = `mount -t tmpfs tmpfs /dev/shm && exec "$0" "$@"`
	p := open(t)
	for _, c := range []struct {
		name, want string
		command    []string
	}{
		{"user", "of user 0", []string{
			testenv.Need(t, "setpriv", "util-linux"),
			"--reuid=65534", "--clear-groups",
		}},
		{"memory", "/dev/shm", []string{
			testenv.Need(t, "unshare", "util-linux"),
			"-m", "sh", "-c", mount,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append(c.command[1:], self, hex.EncodeToString(p.ep.Name()))
			cmd := exec.Command(c.command[0], args...)
			cmd.Env = append(os.Environ(), childRole+"=sender")
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %s, want %q", err, out, c.want)
			}
		})
	}
}
