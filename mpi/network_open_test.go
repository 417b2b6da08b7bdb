package mpi

import (
	"context"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"

	"gobtl/fabric"
	"gobtl/internal/waiting"
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

// Ranks that share CPUs and are more than these CPUs know that. Ranks that are bound to a CPU each
// are not crowded, however few CPUs each rank may use.
func TestCrowded(t *testing.T) {
	mine, cpus := cpusText(), ones(waiting.CPUs())
	other := new(big.Int).Lsh(waiting.CPUs(), 700).Text(16)
	every := new(big.Int).Or(waiting.CPUs(), new(big.Int).Lsh(waiting.CPUs(), 700)).Text(16)
	wide := new(big.Int).Or(waiting.CPUs(), new(big.Int).Lsh(big.NewInt(0xffff), 700)).Text(16)
	same := func(text string, n int) []string { return slices.Repeat([]string{text}, n) }
	for _, tc := range []struct {
		name  string
		texts []string
		want  bool
	}{
		{"a rank for each CPU", same(mine, cpus), false},
		{"a rank too many", same(mine, cpus+1), true},
		{"the others on other CPUs", append(same(mine, cpus), same(other, 3*cpus)...), false},
		{"the others on more CPUs", append(same(mine, cpus), same(every, cpus)...), false},
		{"too many on more CPUs", append(same(mine, cpus), same(every, cpus+1)...), true},
		{"ranks that do not tell", append(same(mine, cpus), ""), true},
		{"no number", append(same(mine, cpus), "many"), true},
		{"a negative number", append(same(mine, cpus), "-1"), true},
		{"an endless number", append(same(mine, cpus), strings.Repeat("1", 1<<20)), true},
		{
			"too many on these CPUs, beside some on more CPUs",
			append(same(mine, cpus+1), same(wide, 3)...), true,
		},
		{"one rank", nil, false},
	} {
		if got := crowded(hostJob{len(tc.texts)}, tc.texts); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
	_, texts, err := chooseNetwork(t.Context(), hostJob{cpus + 1}, fabric.Hints{Provider: "udp"})
	if err != nil || !crowded(hostJob{cpus + 1}, texts) {
		t.Errorf("the CPUs of the ranks are %q, %v", texts, err)
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
		got, _, err := chooseNetwork(t.Context(), hostJob{20}, fabric.Hints{})
		if err != nil || got.Provider != tc.want || !strings.Contains(got.Reason, tc.reason) {
			t.Errorf("%v: %+v, %v", tc.fails, got, err)
		}
	}
}
