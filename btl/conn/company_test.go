package conn

import "testing"

// A host with short Conns one after another counts as one host.
func TestShortConnsOfOneHost(t *testing.T) {
	n := &Node{hosts: map[string]*host{}, company: company{window: 4096}}
	stays := n.enterHost("honest")
	var honest growth
	for range 3 * epochWindows {
		h, g := n.enterHost("other"), growth{}
		n.company.note(h, &g, 2048)
		if n.company.busy[0] > 2 {
			t.Fatalf("%d Conns of one other host are busy", n.company.busy[0]-1)
		}
		n.leaveHost(h)
		n.company.note(stays, &honest, 2048)
		for i := range n.company.busy {
			if n.company.busy[i] < 0 || n.company.before[i] < 0 {
				t.Fatalf("the counts are %v, before %v", n.company.busy, n.company.before)
			}
		}
	}
	if len(n.hosts) != 1 {
		t.Errorf("%d hosts", len(n.hosts))
	}
	n.leaveHost(stays)
	if n.company.busy != (levels{}) || n.company.before != (levels{}) {
		t.Errorf("without Conns, %v are busy, before %v", n.company.busy, n.company.before)
	}
}
