// Package recovery measures the cost of packet loss, bottlenecks and many senders for gobtl with
// each of its profiles, for the kernel's TCP, and for libfabric's reliable datagrams over UDP
// (ofi_rxd), between network namespaces joined by veth cables.
//
//	loss     nftables drops packets at random, in both directions: goodput, latency and its tail
//	share    tc tbf makes a bottleneck behind a router: use of the link, resends, fairness
//	incast   sixteen processes send to one: completion, fairness, overruns of its socket
//	pause    the receiver's process stands still for a while: resends, time to get going again
//	clean    nothing is lost: what congestion control costs
//
// The processes on the hosts run this program with RoleMain, and a Spec tells each of them what to
// do. Each round measures the systems one after the other, so that disturbances of the machine
// affect all of them alike. The tables show medians. The measurements need root, iproute2,
// nftables, and iperf3 for TCP's goodput.
//
//	role*.go    what runs on the hosts
//	child.go    starting and asking them
//	bench.go    options, rounds, the time limit
//	loss.go share.go incast.go pause.go clean.go    the measurements
//	table.go    medians, tables, CSV
//	plot.go     bars
package recovery
