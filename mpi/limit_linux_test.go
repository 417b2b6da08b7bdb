package mpi

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gobtl/btl"
	"gobtl/fabric"
	_ "gobtl/fabric/shm"
)

// alike is a job on one host whose ranks all say what this one does.
type alike struct{ size int }

func (a alike) Rank() int                      { return 0 }
func (a alike) Size() int                      { return a.size }
func (a alike) NodeOf(int) int                 { return 0 }
func (a alike) Nodes() int                     { return 1 }
func (a alike) Fence(context.Context) error    { return nil }
func (a alike) Finalize(context.Context) error { return nil }
func (a alike) Exchange(_ context.Context, _ string, value []byte) ([][]byte, error) {
	return slices.Repeat([][]byte{value}, a.size), nil
}

// Ranks share memory where each has files left for all others.
func TestFilesForSharing(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	open, err := os.ReadDir("/proc/self/fd") // also of other tests
	if err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = uint64(len(open)) + 120
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	some, _, errSome := chooseNetwork(t.Context(), alike{20}, fabric.Hints{})
	more, _, errMore := chooseNetwork(t.Context(), alike{60}, fabric.Hints{})
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if some.Provider != memoryProvider || errSome != nil {
		t.Errorf("20 ranks, 120 files each: %v, %v", some, errSome)
	}
	if more.Provider != fabric.Sockets() || errMore != nil ||
		!strings.Contains(more.Reason, "limit of open files (ulimit -n)") {
		t.Errorf("60 ranks, 120 files each: %v, %v", more, errMore)
	}
}

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
