package systems

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// mpiSource is the program that the ranks run.
//
//go:embed mpi/peer.c
var mpiSource []byte

// mpi measures Open MPI with a program of this project, because Debian has no package with such a
// program.
type mpi struct {
	about Info
	flags []string // of mpirun: which transport
}

func newMPI(id, label, provider string, flags ...string) *mpi {
	m := &mpi{flags: flags}
	m.about = Info{
		ID: id, Label: label, Kind: KindPeer, Package: "openmpi-bin and libopenmpi-dev",
		Command: "mpirun -np 2 --bind-to none",
	}
	for _, flag := range append(flags, "peer", "0,1", "200", "latency:8:1") {
		if strings.ContainsAny(flag, ";^") {
			flag = "'" + flag + "'"
		}
		m.about.Command += " " + flag
	}
	if provider != "" {
		m.about.Note = "over libfabric's " + provider
	}
	return m
}

// mpiVersion finds the version in the output of mpirun.
const mpiVersion = `\(Open MPI\) (\S+)`

func (m *mpi) Info() *Info { return &m.about }

// mpiEnv permits root to run mpirun, which is necessary in a container.
var mpiEnv = []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}

// Probe builds the program once for all transports.
func (m *mpi) Probe(ctx context.Context, h *Host) (string, error) {
	for _, tool := range []string{"mpirun", "mpicc"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", &MissingError{tool + " is not installed"}
		}
	}
	out, err := h.run(ctx, anyCPU, command{name: "mpirun", args: []string{"--version"}, env: mpiEnv})
	if err != nil {
		return "", err
	}
	version := firstMatch(mpiVersion, out)
	if version == "unknown" {
		return "", &MissingError{"mpirun is not Open MPI's"}
	}
	program := m.program(h)
	if _, err := os.Stat(program); err == nil {
		return version, nil
	}
	source := program + ".c"
	if err := os.WriteFile(source, mpiSource, 0o600); err != nil {
		return "", err
	}
	_, err = h.run(ctx, anyCPU, command{
		name: "mpicc", args: []string{"-O2", "-o", program, source}, env: mpiEnv,
	})
	if err != nil {
		return "", fmt.Errorf("mpicc: %w", err)
	}
	return version, nil
}

func (m *mpi) program(h *Host) string { return filepath.Join(h.dir, "peer") }

func (m *mpi) Cannot(Point) string { return "" }

func (m *mpi) Measure(ctx context.Context, h *Host, points []Point) ([]Sample, error) {
	args := []string{"-np", "2", "--bind-to", "none", "--oversubscribe"}
	args = append(args, m.flags...)
	args = append(args, m.program(h), h.cpuText(), strconv.FormatInt(h.each.Milliseconds(), 10))
	for _, p := range points {
		args = append(args, fmt.Sprintf("%s:%d:%d", p.Workload, p.SizeBytes, p.Window))
	}
	// The ranks pin themselves, and mpirun only sleeps.
	out, err := h.run(ctx, anyCPU, command{name: "mpirun", args: args, env: mpiEnv})
	samples, parseErr := parseMPI(out, points)
	if err == nil {
		err = parseErr
	}
	return samples, err
}

// parseMPI parses the program's lines, which are in the order of the points.
func parseMPI(out []byte, points []Point) ([]Sample, error) {
	var samples []Sample
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(samples) == len(points) || len(fields) != 5 {
			continue
		}
		p := points[len(samples)]
		if fields[0] != string(p.Workload) || fields[1] != strconv.Itoa(p.SizeBytes) ||
			fields[2] != strconv.Itoa(p.Window) {
			continue
		}
		s := Sample{Point: p}
		var err error
		if s.Value, err = positive(fields[3]); err != nil {
			return samples, err
		}
		if p.Workload == Latency {
			if s.MedianUs, err = positive(fields[4]); err != nil {
				return samples, err
			}
		}
		samples = append(samples, s)
	}
	if len(samples) < len(points) {
		return samples, errors.New("the MPI program ended before " + points[len(samples)].String())
	}
	return samples, nil
}
