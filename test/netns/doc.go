// Package netns makes small networks of Linux network namespaces joined by veth cables, for tests
// that need more than the loopback interface: an MTU, a router, a filter, a slow line, a loss.
//
//	lab := netns.New(t)                            // skips without root; fails there if CI is set
//	a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
//	a.Host.Do(func() { ... })                      // sockets opened in here belong to host a
//	cmd := b.Host.Command("btlbench", "serve")     // a program on host b
//	cmd = b.Host.Test("TestOnHostB", "ROLE=b")     // this test binary again, on host b
//
// A lab is removed at the end of its test. The names of its namespaces contain the process id of
// their creator, so that the next run removes the namespaces that a killed run has left behind. One
// process may have several labs at once; they do not see each other.
//
// Everything is done with iproute2's ip and tc; the filters want nft of nftables.
package netns
