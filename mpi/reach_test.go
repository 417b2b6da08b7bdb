package mpi

import (
	"slices"
	"testing"
)

// Each host is tried from each other one, or from those a power of two away, by ranks that have the
// same place on their hosts where there are as many.
func TestPartners(t *testing.T) {
	hosts := func(counts ...int) (nodes []int) {
		for node, count := range counts {
			nodes = append(nodes, slices.Repeat([]int{node}, count)...)
		}
		return nodes
	}
	for _, test := range []struct {
		nodes []int
		rank  int
		want  []int
	}{
		{hosts(3), 1, nil},
		{hosts(2, 1), 1, []int{2}},
		{hosts(2, 1), 2, []int{0}},
		{hosts(2, 3, 2), 1, []int{3, 6}},
		{hosts(2, 3, 2), 4, []int{5, 0}},
		{[]int{0, 1, 0, 1}, 2, []int{3}}, // dealt out by turns
		{hosts(slices.Repeat([]int{1}, 17)...), 15, []int{16, 0, 2, 6, 14}},
	} {
		if got := partners(test.nodes, test.rank); !slices.Equal(got, test.want) {
			t.Errorf("hosts %v: rank %d tries %v, want %v", test.nodes, test.rank, got, test.want)
		}
	}
}

// Networks and devices by which ranks have missed each other come last, and where one rank has no
// other one there is nothing left to try.
func TestLeave(t *testing.T) {
	second := func(src string) address { return other(src, "10.2.0.0/24") }
	p := &places{offers: []offer{
		offerOf("a", eth("10.0.0.1"), six("2001:db8::1"), second("10.2.0.1")),
		offerOf("b", eth("10.0.0.2"), six("2001:db8::2"), second("10.2.0.2")),
		offerOf("c", eth("10.0.0.3"), second("10.2.0.3")),
	}}
	taken := func() (src []string) {
		for rank, place := range p.choose() {
			src = append(src, p.offers[rank].Addrs[place].Src)
		}
		return src
	}
	pair := []missed{{From: 0, To: 1}}
	if want := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}; !slices.Equal(taken(), want) {
		t.Errorf("at first %v, want %v", taken(), want)
	}
	if want := []string{"10.2.0.1", "10.2.0.2", "10.2.0.3"}; !p.leave(pair) ||
		!slices.Equal(taken(), want) {
		t.Errorf("then %v, want %v", taken(), want)
	}
	if p.leave(pair) {
		t.Errorf("there is another network: %v", taken())
	}
}
