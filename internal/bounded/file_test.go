//go:build unix

package bounded

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestReadFile checks that only a regular file of a bounded size is read, and that nothing blocks.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	name := func(n string) string { return filepath.Join(dir, n) }
	for _, err := range []error{
		os.WriteFile(name("small"), []byte("1234"), 0o600),
		os.WriteFile(name("large"), []byte("12345"), 0o600),
		syscall.Mkfifo(name("pipe"), 0o600),
		os.Symlink("/dev/zero", name("endless")),
		os.Mkdir(name("folder"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for n, good := range map[string]bool{
		"small": true, "large": false, "pipe": false, "endless": false, "folder": false, "none": false,
	} {
		ended := make(chan error, 1)
		go func() {
			b, err := ReadFile(name(n), 4)
			if err == nil && string(b) != "1234" {
				t.Errorf("%s: %q", n, b)
			}
			ended <- err
		}()
		select {
		case err := <-ended:
			if (err == nil) != good {
				t.Errorf("%s: %v", n, err)
			}
		case <-time.After(patience):
			t.Errorf("%s: the read goes on", n)
		}
	}
}
