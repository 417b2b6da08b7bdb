// Package netns makes small networks of Linux network namespaces joined by veth cables, for tests
// that need an MTU, a router, a packet filter, a slow line, or packet loss.
//
//	lab := netns.New(t)                            // skips without root; fails there if CI is set
//	a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
//	a.Host.Do(func() { ... })                      // sockets opened in here belong to host a
//	cmd := b.Host.Command("btlbench", "serve")     // a program on host b
//	cmd = b.Host.Test("TestOnHostB", "ROLE=b")     // this test binary again, on host b
//
// A lab is removed at the end of its test. The names of its namespaces contain the process id of
// their creator, so that the next run can remove the namespaces that a killed run has left behind.
// One process may have several labs at once, which do not see each other.
//
// The package needs the programs ip and tc of iproute2, and nft of nftables for filters.
package netns
