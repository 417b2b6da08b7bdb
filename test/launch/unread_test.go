//go:build linux

package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"gobtl/launch"
)

// unread is a rank of a job whose rank 2 asks its launcher again and again, and reads no answer.
// The file "asking" tells the others that rank 2 has begun.
func unread(ctx context.Context) error {
	const asking = "asking"
	if os.Getenv("PMI_RANK") == "2" {
		pmi := os.NewFile(3, "PMI_FD")
		_, err := io.WriteString(pmi, "cmd=init pmi_version=1 pmi_subversion=1\n")
		for i := 0; err == nil; i++ {
			if _, err = io.WriteString(pmi, "cmd=get_universe_size\n"); i == 1000 {
				err = os.WriteFile(asking, nil, 0o600)
			}
		}
		<-ctx.Done() // It is killed.
		return err
	}
	for {
		_, err := os.Stat(asking)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(time.Millisecond)
	}
	j, err := launch.Join(ctx, launch.Config{})
	if err != nil {
		return err
	}
	for i := range 100 {
		if _, err := j.Get(ctx, 1-j.Rank(), fmt.Sprint("key", i)); !errors.Is(err, launch.ErrNoValue) {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	fmt.Println("all answered")
	return j.Finalize(ctx)
}

// A rank that does not read the answers of its launcher is killed, and the others are not held up.
func TestUnread(t *testing.T) {
	t.Parallel()
	shell := fakeShell(t)
	for _, hosts := range [][]string{nil, {"--rsh", shell, "--hosts", "a,b"}} {
		args := append([]string{"-n", "3", "--keep-going", "--wdir", t.TempDir()}, hosts...)
		r := run(t, roleOf(t, "unread", args...))
		if strings.Count(r.stdout, "all answered\n") != 2 || r.status != 128+9 ||
			!strings.Contains(r.stderr, "was killed: it does not read the replies") {
			t.Errorf("%v: status %d\n%s%s", hosts, r.status, r.stdout, r.stderr)
		}
	}
}
