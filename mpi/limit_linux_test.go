package mpi

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"gobtl/btl"
)

// The error of a rank that cannot be reached names the limit of open files where this process is
// at it.
func TestLimitOfFiles(t *testing.T) {
	gone := (&engine{}).gone(1, btl.ErrUnreachable)
	if !errors.Is(gone, btl.ErrUnreachable) || strings.Contains(gone.Error(), "ulimit") {
		t.Fatalf("below the limit: %v", gone)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	unreachable, dead := (&engine{}).gone(1, btl.ErrUnreachable), (&engine{}).gone(1, btl.ErrPeerDead)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(unreachable, btl.ErrUnreachable) ||
		!strings.Contains(unreachable.Error(), "limit of open files (ulimit -n)") {
		t.Errorf("at the limit: %v", unreachable)
	}
	if strings.Contains(dead.Error(), "ulimit") {
		t.Errorf("a rank that was reached: %v", dead)
	}
}
