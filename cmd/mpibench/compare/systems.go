package compare

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"gobtl/cmd/btlbench/systems"
	"gobtl/cmd/mpibench/bench"
)

// peerSource is the source of the C program that the ranks of the other MPI libraries run.
//
//go:embed mpi/peer.c
var peerSource []byte

// floorSource is the source of the C program that measures a bare TCP connection.
//
//go:embed tcp/floor.c
var floorSource []byte

// The constants below are the names of the compared systems.
const (
	gobtl   = "gobtl mpi"
	openMPI = "Open MPI"
	mpich   = "MPICH"
	btlOwn  = "btl"
	tcpWait = "TCP block" // two processes in C that sleep in the kernel whenever they wait
	tcpPoll = "TCP poll"  // two processes in C that poll a TCP connection
)

// job describes one run of a program in the comparison. A job runs each test with each size, among
// the given number of ranks.
type job struct {
	ranks int
	tests []string
	sizes []int
}

const (
	k = 1 << 10
	m = 1 << 20
)

// jobs returns all jobs of a comparison. The barrier has no sizes.
func jobs(quick bool) []job {
	if quick {
		return []job{
			{2, []string{"latency", "bw", "mbw_mr", "barrier", "allreduce"}, []int{8, m}},
			{8, []string{"barrier", "allreduce"}, []int{8}},
		}
	}
	return []job{
		{2, []string{"latency", "bw"}, []int{8, 512, 4 * k, 16 * k, 64 * k, 256 * k, m}},
		{2, []string{"mbw_mr", "barrier"}, []int{8}},
		{2, []string{"allreduce"}, []int{8, k, 16 * k, 128 * k, m}},
		{8, []string{"barrier", "allreduce"}, []int{8, k, 16 * k, 128 * k, m}},
		{8, []string{"alltoall"}, []int{8, 16 * k}},
	}
}

// system is an MPI library, or a bare TCP connection, that is measured.
type system struct {
	name     string
	compiler string   // compiler of the C program; "" is package mpi
	source   []byte   // source of the C program
	launcher string   // "" starts the C program, which itself starts the second of two processes
	args     []string // arguments of the launcher before "-n"
	env      []string
	wait     string   // value of --wait, "" is the default; or how TCP waits
	layer    string   // one of the layers of package pair, or "" for another system
	mtu      int      // MTU of the network of a layer or of TCP; 0 is that of loopback
	version  []string // the command that prints the version
	pattern  string   // regular expression that finds the version
	packages string
	program  string       // path of the program that the ranks run
	found    string       // the version that was found
	broken   map[int]bool // jobs that have failed, by number
}

func all(programs Programs, beside Beside) []*system {
	list := []*system{{name: gobtl, launcher: programs.Btlrun, program: programs.Mpibench}}
	if beside.named() != Name {
		list = append(list, &system{
			name: gobtlEvent, launcher: programs.Btlrun, program: programs.Mpibench, wait: "event",
		})
	}
	list = append(list, []*system{
		{
			name: openMPI, compiler: "mpicc.openmpi", source: peerSource, launcher: "mpirun.openmpi",
			args: []string{
				"--bind-to", "none", "--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
				"--mca", "btl_tcp_if_include", "lo",
			},
			env:      []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"},
			version:  []string{"mpirun.openmpi", "--version"},
			pattern:  `\((?:Open MPI|OpenRTE)\) (\S+)`,
			packages: "openmpi-bin and libopenmpi-dev",
		},
		{
			name: mpich, compiler: "mpicc.mpich", source: peerSource, launcher: "mpiexec.hydra",
			env:      []string{"UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo", "MPIR_CVAR_NOLOCAL=1"},
			version:  []string{"mpichversion"},
			pattern:  `MPICH Version:\s+(\S+)`,
			packages: "mpich and libmpich-dev",
		},
	}...)
	if beside.named() != Name {
		list = append(list, floors(0)...)
	}
	return list
}

// errMissing means that an MPI library is not installed.
var errMissing = errors.New("not installed")

// The method probe finds the version of a system, and builds the C program.
func (s *system) probe(ctx context.Context, h *systems.Host, dir string) error {
	if s.compiler == "" {
		return nil
	}
	for _, tool := range []string{s.compiler, s.launcher, s.version[0]} {
		if tool == "" {
			continue
		}
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s: %s: %w (packages %s)", s.name, tool, errMissing, s.packages)
		}
	}
	out, err := h.Run(ctx, s.env, s.version[0], s.version[1:]...)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	found := regexp.MustCompile(s.pattern).FindSubmatch(out)
	if found == nil {
		return fmt.Errorf("%s: %s is another program", s.name, s.version[0])
	}
	s.found = string(found[1])
	source := filepath.Join(dir, s.compiler+".c")
	if err := os.WriteFile(source, s.source, 0o600); err != nil {
		return err
	}
	s.program = filepath.Join(dir, s.compiler)
	if _, err := h.Run(ctx, s.env, s.compiler, "-O2", "-o", s.program, source); err != nil {
		return fmt.Errorf("%s: %s: %w", s.name, s.compiler, err)
	}
	return nil
}

// line returns the command line of a job, with the launcher and its arguments.
func (s *system) line(j job, cfg *Config) (name string, args []string) {
	var sizes []string
	for _, n := range j.sizes {
		sizes = append(sizes, strconv.Itoa(n))
	}
	tests, list := strings.Join(j.tests, ","), strings.Join(sizes, ",")
	args = append(append(args, s.args...), "-n", strconv.Itoa(j.ranks), s.program)
	name = s.launcher
	switch {
	case s.layer != "":
		name, args = s.program, s.layerLine(tests, list, cfg)
	case s.launcher == "":
		name, args = s.program, []string{
			cfg.CPUs.String(), strconv.FormatInt(cfg.Each.Milliseconds(), 10), "64", tests, list, s.wait,
			strconv.Itoa(s.mtu),
		}
	case s.compiler == "":
		args = append(args, "--test", tests, "--size", list, "--format", "json",
			"--duration", cfg.Each.String(), "--cpus", cfg.CPUs.String(), "--provider", "udp")
		if s.wait != "" {
			args = append(args, "--wait", s.wait)
		}
	default:
		args = append(args, cfg.CPUs.String(), strconv.FormatInt(cfg.Each.Milliseconds(), 10), "64",
			tests, list)
	}
	return cfg.Beside.wrap(cfg.Programs.Mpibench, cfg.CPUs, name, args)
}

// takes reports whether a system runs a job. A TCP connection has only two ends, and a job with one
// test is for streams.
func (s *system) takes(j job) bool {
	if j.ranks == 2 && s.launcher == "" {
		return (len(j.tests) == 1) == (s.layer == "stream")
	}
	return s.launcher != ""
}

// figures returns the number of values that a job measures.
func (j job) figures() (n int) {
	for _, test := range j.tests {
		if test == "barrier" {
			n++
		} else {
			n += len(j.sizes)
		}
	}
	return n
}

// measure runs a job, and returns the values that were measured before the job ended or failed. An
// error after the last value is ignored, because MPICH sometimes hangs in MPI_Finalize.
func (s *system) measure(ctx context.Context, h *systems.Host, j job, cfg *Config) (
	figures []bench.Result, err error,
) {
	name, args := s.line(j, cfg)
	out, err := h.Run(ctx, s.env, name, args...)
	for line := range bytes.Lines(out) {
		var f bench.Result
		if json.Unmarshal(line, &f) == nil && f.Schema == bench.Schema {
			figures = append(figures, f)
		}
	}
	if len(figures) == j.figures() {
		return figures, nil
	}
	if err == nil {
		err = fmt.Errorf("%d figures of %d", len(figures), j.figures())
	}
	return figures, err
}

// ownParts is the number of windows into which btlbench divides its time. A window of btlbench is
// then about as long as a window of mpibench with the largest messages.
const ownParts = 7

// measureOwn measures the transport without package mpi by btlbench. The values have the form of
// mpibench's values.
func measureOwn(ctx context.Context, h *systems.Host, cfg *Config) ([]bench.Result, error) {
	var figures []bench.Result
	for _, own := range systems.All(systems.Network, systems.Program{Self: cfg.Programs.Btlbench}) {
		if own.Info().ID != "gobtl-udp" {
			continue
		}
		for _, p := range []systems.Point{
			{Workload: systems.Latency, SizeBytes: 8, Window: 1},
			{Workload: systems.Stream, SizeBytes: m, Window: systems.StreamWindow(m)},
		} {
			samples, err := own.Measure(ctx, h, []systems.Point{p})
			if err != nil {
				return figures, fmt.Errorf("btlbench: %w", err)
			}
			f := bench.Result{Test: "latency", Size: p.SizeBytes, Ranks: 2, Median: samples[0].MedianUs}
			if p.Workload == systems.Stream {
				f.Test, f.Median = "bw", samples[0].Value
			}
			figures = append(figures, f)
		}
	}
	return figures, nil
}
