// Package recovery measures the cost of loss, bottlenecks and many senders on real sockets: gobtl
// with each of its profiles, the kernel's TCP, and libfabric's reliable datagrams over UDP
// (ofi_rxd), side by side between network namespaces joined by veth cables.
//
//	loss     nftables drops packets at random, in both directions: goodput, latency and its tail
//	share    tc tbf makes a bottleneck behind a router: use of the link, resends, fairness
//	incast   sixteen processes send to one: completion, fairness, overruns of its socket
//	pause    the receiver's process stands still for a while: resends, time to get going again
//	clean    nothing is lost: what congestion control costs
//
// The programs on the hosts are further processes of this program. They run RoleMain, with a Spec
// as the instruction. Rounds are interleaved, so that disturbances of the machine affect all
// systems alike. The tables show medians. Everything needs root, iproute2, nftables, and iperf3 for
// TCP's goodput.
//
//	role*.go    what runs on the hosts
//	child.go    starting and asking them
//	bench.go    options, rounds, the time limit
//	loss.go share.go incast.go pause.go clean.go    the measurements
//	table.go    medians, tables, CSV
//	plot.go     bars
package recovery
