package systems

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gobtl/cmd/btlbench/plan"
)

// Workload is a kind of traffic.
type Workload string

// The constants below are the workloads, in the order of the report.
const (
	Latency Workload = "latency"
	Stream  Workload = "stream"
	Rate    Workload = "rate"
)

// Workloads lists all workloads.
var Workloads = []Workload{Latency, Stream, Rate}

// Point identifies a measured value by workload, size and other properties.
type Point struct {
	Workload  Workload `json:"workload"`
	SizeBytes int      `json:"size_bytes"`
	Window    int      `json:"window"` // messages in flight; 1 in a ping-pong
}

func (p Point) String() string {
	if p.Workload == Rate {
		return fmt.Sprintf("%s, %d in flight", p.Workload, p.Window)
	}
	return fmt.Sprintf("%s of %s", p.Workload, plan.SizeText(p.SizeBytes))
}

// Sample is the measurement of one round at a point.
type Sample struct {
	Point
	Value       float64 // us, MB/s or messages/s
	MedianUs    float64 // of the half round trips, where the tool tells it; else 0
	ResentRatio float64 // retransmissions by segments sent; the transport alone
	LostRatio   float64 // of the messages, where nothing sends again
}

// Kind is the role of a system in the comparison.
type Kind string

// The constants below are the kinds of systems.
const (
	KindBTL       Kind = "gobtl"     // the transport
	KindRaw       Kind = "raw"       // the bare fabric below it
	KindPeer      Kind = "peer"      // reliable, as the transport is
	KindReference Kind = "reference" // unreliable: what its fabric can do at best
)

// Info describes a system in the report.
type Info struct {
	ID      string `json:"id"`
	Label   string `json:"label"`
	Kind    Kind   `json:"kind"`
	Version string `json:"version,omitempty"`
	Command string `json:"command"` // an example of what was run
	// Missing is the reason why the system took no part. Package is the name of the system's Debian
	// package.
	Missing string `json:"missing,omitempty"`
	Package string `json:"package,omitempty"`
	// Note is a remark for readers of the comparison.
	Note string `json:"note,omitempty"`
	// RawID is the id of the underlying system with which this one is compared, or empty for none.
	RawID string `json:"-"`
}

// System is a system that is measured.
type System interface {
	Info() *Info
	// Probe finds out whether the system is installed, and its version.
	Probe(ctx context.Context, h *Host) (version string, err error)
	// Cannot returns the reason why the system has no result at a point, or "" if it has one.
	Cannot(p Point) string
	// Measure measures points of one workload once. After an error, the samples are those before
	// the error.
	Measure(ctx context.Context, h *Host, points []Point) ([]Sample, error)
}

// MissingError says that a system is not installed.
type MissingError struct{ What string }

func (e *MissingError) Error() string { return e.What }

// Program is the program that measures the transport, with its command "pair".
type Program struct {
	Self    string // its file
	Version string
	// Present returns the reason why a provider is not available.
	Present func(provider string) error
}

// Table is a class of systems to compare. The systems of one table are measured in one run.
type Table string

// The constants below are the tables of the report.
const (
	Network Table = "network" // through the kernel's network
	OneHost Table = "host"    // two processes of one host, by memory that they share
)

// All lists all systems of a table, in the order of the report.
func All(table Table, this Program) []System {
	if table == OneHost {
		return oneHost(this)
	}
	return network(this)
}

// oneHost lists the systems that use shared memory.
func oneHost(this Program) []System {
	vader := []string{"--mca", "pml", "ob1", "--mca", "btl", "vader,self"}
	fi := newPingpong("fi-shm", "fi_pingpong shm", "shm", "rdm", KindPeer)
	fi.costs = costs{perMessage: time.Microsecond, bytesPerSec: 3e9}
	return []System{
		newPair(this, "shm", "btl", 0), newPair(this, "shm", "raw", 0),
		newMPI("mpi-vader", "Open MPI vader, CMA", "",
			slices.Concat(vader, []string{"--mca", "btl_vader_single_copy_mechanism", "cma"})...),
		newMPI("mpi-vader-copies", "Open MPI vader, no CMA", "",
			slices.Concat(vader, []string{"--mca", "btl_vader_single_copy_mechanism", "none"})...),
		newMPI("mpi-ucx-posix", "Open MPI, UCX posix", "", "--mca", "pml", "ucx", "--mca", "osc", "^ucx",
			"--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any",
			"-x", "UCX_TLS=posix,self"),
		newUCXMemory("ucx-posix", "UCX posix", "posix"),
		newUCXMemory("ucx-posix-cma", "UCX posix, CMA", "posix,cma"),
		newUCXMemory("ucx-sysv", "UCX sysv", "sysv"),
		newUCXNotices(),
		fi,
	}
}

// network lists the systems that use the kernel's network.
func network(this Program) []System {
	ofi := func(layer string) *pair { return newPair(this, "ofi/udp", layer, 0) }
	udp := func(layer string, mtuBytes int) *pair { return newPair(this, "udp", layer, mtuBytes) }
	list := []System{
		udp("btl", 0), udp("raw", 0), udp("btl", ethernetMTU), udp("raw", ethernetMTU),
		ofi("btl"), ofi("raw"),
	}
	return append(list,
		newUCX(),
		newMPI("mpi-tcp", "Open MPI btl/tcp", "", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
			"--mca", "btl_tcp_if_include", "lo"),
		newMPI("mpi-ucx", "Open MPI, UCX tcp", "", "--mca", "pml", "ucx", "--mca", "osc", "^ucx",
			"--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any",
			"-x", "UCX_TLS=tcp,self", "-x", "UCX_NET_DEVICES=lo"),
		newMPI("mpi-rxd", "Open MPI mtl/ofi rxd", "udp;ofi_rxd", "--mca", "pml", "cm",
			"--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "udp;ofi_rxd",
			"-x", "FI_UDP_IFACE=lo"),
		newPingpong("fi-tcp", "fi_pingpong tcp", "tcp", "msg", KindPeer),
		newPingpong("fi-rxd", "fi_pingpong udp;ofi_rxd", "udp;ofi_rxd", "rdm", KindPeer),
		newIperf(false),
		newPingpong("fi-udp", "fi_pingpong udp", "udp", "dgram", KindReference),
		newIperf(true),
	)
}

// ethernetMTU is the interface MTU for the second pair of udp systems.
const ethernetMTU = 1500

// inFlightBytesMax limits a stream's window in bytes, as in "btlbench pair".
const inFlightBytesMax = 64 << 20

// StreamWindow returns the window of a stream, which is 64 messages, or fewer if they are large.
func StreamWindow(sizeBytes int) int { return min(64, max(2, inFlightBytesMax/max(1, sizeBytes))) }

// Points returns all points that are measured.
func Points(quick bool) []Point {
	const k, m = 1 << 10, 1 << 20
	latency := []int{8, 64, 512, 1 * k, 4 * k, 16 * k, 64 * k, 256 * k, 1 * m}
	stream := []int{64, 512, 1 * k, 8 * k, 64 * k, 256 * k, 1 * m, 4 * m}
	windows := []int{1, 8, 64, 512}
	if quick {
		latency, stream, windows = []int{8, 1 * k}, []int{64 * k}, []int{1, 64}
	}
	var list []Point
	for _, n := range latency {
		list = append(list, Point{Latency, n, 1})
	}
	for _, n := range stream {
		list = append(list, Point{Stream, n, StreamWindow(n)})
	}
	for _, w := range windows {
		list = append(list, Point{Rate, RateBytes, w})
	}
	return list
}

// RateBytes is the size of the messages whose rate is measured.
const RateBytes = 8

// costs is the approximate time per message, for tools that take a number of messages instead of a
// time.
type costs struct {
	perMessage  time.Duration
	bytesPerSec float64
}

// The method count is the number of messages of a size that take about the given time.
func (c costs) count(sizeBytes int, d time.Duration) int {
	each := c.perMessage.Seconds() + float64(sizeBytes)/c.bytesPerSec
	return max(10, int(d.Seconds()/each))
}
