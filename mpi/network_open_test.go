package mpi

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"gobtl/fabric"
)

// memoryStub stands in for the provider of shared memory, which the tests of this package have not
// imported: it offers itself, and opens or does not.
type memoryStub struct{ fails error }

var stub memoryStub

func init() { fabric.Register(&stub) }

func (*memoryStub) Family() string { return memoryProvider }

func (*memoryStub) GetInfo(h fabric.Hints) ([]fabric.Info, error) {
	if h.Provider != memoryProvider {
		return nil, nil
	}
	return []fabric.Info{{Provider: memoryProvider, Fabric: "here"}}, nil
}

func (m *memoryStub) Open(fabric.Info, fabric.DomainConfig) (fabric.Domain, error) {
	if m.fails != nil {
		return nil, m.fails
	}
	return stubDomain{}, nil
}

type stubDomain struct{ fabric.Domain }

func (stubDomain) Close() error { return nil }

// hostJob is a job of so many ranks on one host, all of which wish the same.
type hostJob struct{ size int }

func (hostJob) Rank() int                      { return 0 }
func (j hostJob) Size() int                    { return j.size }
func (hostJob) NodeOf(int) int                 { return 0 }
func (hostJob) Nodes() int                     { return 1 }
func (hostJob) Fence(context.Context) error    { return nil }
func (hostJob) Finalize(context.Context) error { return nil }

func (j hostJob) Exchange(_ context.Context, _ string, mine []byte) ([][]byte, error) {
	all := make([][]byte, j.size)
	for rank := range all {
		all[rank] = mine
	}
	return all, nil
}

// Ranks that are more than the processors of their host know that.
func TestCrowded(t *testing.T) {
	cpus := runtime.NumCPU()
	if crowded(hostJob{cpus}) || !crowded(hostJob{cpus + 1}) {
		t.Errorf("%d processors: %d ranks are crowded: %v, %d: %v", cpus, cpus,
			crowded(hostJob{cpus}), cpus+1, crowded(hostJob{cpus + 1}))
	}
}

// Shared memory that does not open is not chosen by itself: the ranks would fail where UDP works.
// The reason says what was in the way.
func TestMemoryThatDoesNotOpen(t *testing.T) {
	defer func() { stub.fails = nil }()
	for _, tc := range []struct {
		fails        error
		want, reason string
	}{
		{nil, "shm", "all ranks are on this host"},
		{errors.New("belongs to user 4711"), "udp", "belongs to user 4711"},
	} {
		stub.fails = tc.fails
		got, err := chooseNetwork(t.Context(), hostJob{20}, fabric.Hints{})
		if err != nil || got.Provider != tc.want || !strings.Contains(got.Reason, tc.reason) {
			t.Errorf("%v: %+v, %v", tc.fails, got, err)
		}
	}
}
