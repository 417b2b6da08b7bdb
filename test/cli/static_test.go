//go:build unix

package cli

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobtl/internal/testenv"
)

// TestStatic builds btlbench without cgo: a file that needs nothing else, and that measures
// everything there is over the provider udp.
func TestStatic(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("for Linux")
	}
	static := filepath.Join(t.TempDir(), "btlbench")
	build := exec.Command("go", "build", "-trimpath", "-o", static, "gobtl/cmd/btlbench")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := elf.Open(static)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("a build without cgo has a segment %v: it is not static", p.Type)
		}
	}
	if libs, err := file.ImportedLibraries(); err != nil || len(libs) != 0 {
		t.Errorf("a build without cgo needs %v, %v", libs, err)
	}

	// Nothing of the environment is needed either.
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), static, args...)
		cmd.Env = []string{}
		var stdout, stderr stream
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil || stderr.String() != "" {
			t.Fatalf("btlbench %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
		}
		return stdout.String()
	}
	out := run("info")
	if !strings.Contains(out, "* udp ") || !strings.Contains(out, "ofi: not available here") {
		t.Errorf("info:\n%s", out)
	}
	run("pair", "--test", "all", "--size", "8,64K", "--iterations", "40", "--rounds", "1",
		"--warmup", "0", "--verify")
	run("pair", "--layer", "raw", "--size", "8,1K", "--duration", "50ms", "--rounds", "1")
}

// TestVariants measures, verified, over each way of using the kernel's UDP, at both families of
// addresses, with the loopback's MTU and Ethernet's.
func TestVariants(t *testing.T) {
	for _, args := range [][]string{
		{"--provider", "udp", "--mtu", "1500"},
		{"--provider", "udp;nogso;nogro;nommsg"},
		{"--provider", "udp;nogso", "--node", "::1", "--mtu", "1500"},
		{"--provider", "udp;nogro", "--domain", "lo"},
	} {
		p := start(t, append([]string{
			"pair", "--test", "lat,bw,put_bw", "--size", "8,20K", "--iterations", "30", "--rounds", "1",
			"--warmup", "0", "--verify", "--format", "json",
		}, args...)...)
		if status := p.wait(time.Minute); status != 0 {
			t.Errorf("%v: status %d, %s", args, status, p.stderr.String())
			continue
		}
		runs := p.report().Runs
		if len(runs) != 6 {
			t.Errorf("%v: %d runs", args, len(runs))
		}
		for _, r := range runs {
			if r.CorruptBytes != 0 || r.MissingMessages != 0 || r.DuplicatedMessages != 0 ||
				r.VerifiedBytes < 30*int64(r.SizeBytes) {
				t.Errorf("%v: %+v", args, r)
			}
		}
	}
	p := start(t, "pair", "--provider", "udp;nogsö", "--test", "lat", "--size", "8")
	if status := p.wait(margin); status != 1 {
		t.Errorf("an unknown variant: status %d", status)
	}
	p.oneLine()
}

// TestKilledByProvider kills and stops each side of a run, on both providers that could be the
// default here.
func TestKilledByProvider(t *testing.T) {
	for _, provider := range []string{"udp", "ofi/udp"} {
		t.Run(provider, func(t *testing.T) {
			if strings.HasPrefix(provider, "ofi/") {
				needUDP(t)
			}
			// The control connection tells of a killed process at once, long before the time-out.
			for _, tc := range []struct {
				sig         syscall.Signal
				peerTimeout string
				want        string
			}{
				{syscall.SIGKILL, "20s", "peer died"},
				{syscall.SIGSTOP, "1s", "peer does not answer"},
			} {
				run := append([]string{"--provider", provider, "--peer-timeout", tc.peerTimeout}, oneRound...)
				server, addr := startServe(t)
				client := start(t, append([]string{"run", addr}, run...)...)
				busy(t, server.cmd.Process.Pid)
				server.signal(tc.sig)
				if status := client.wait(2*time.Second + margin); status != 1 {
					t.Errorf("server, %v: status %d", tc.sig, status)
				}
				if line := client.oneLine(); !strings.Contains(line, tc.want) {
					t.Errorf("server, %v: %s", tc.sig, line)
				}

				server, addr = startServe(t, "--once")
				client = start(t, append([]string{"run", addr}, run...)...)
				busy(t, server.cmd.Process.Pid)
				client.signal(tc.sig)
				if status := server.wait(2*time.Second + margin); status != 1 {
					t.Errorf("client, %v: status %d", tc.sig, status)
				}
				if text := server.stderr.String(); !strings.Contains(text, tc.want) {
					t.Errorf("client, %v: %s", tc.sig, text)
				}
			}
		})
	}
}

// TestStartsAlone: a program opens the C library when it starts, and no other. libfabric and what
// that brings along are opened when one of its providers is asked for, for that costs much longer
// than all else of a start.
func TestStartsAlone(t *testing.T) {
	needUDP(t)
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+"/", "gobtl/cmd/...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	opened := opens(t, binary, "info", "--provider", "ofi/udp")
	isLibfabric := func(lib string) bool { return strings.HasPrefix(lib, "libfabric.so") }
	if !slices.ContainsFunc(opened, isLibfabric) {
		testenv.Missing(t, "needs a dynamic linker that tells what it opens: %v", opened)
	}
	for _, name := range []string{"btlbench", "btlrun", "btlstream", "btlvnic", "mpibench"} {
		for _, lib := range opens(t, filepath.Join(dir, name), "--help") {
			// All of them are parts of the C library.
			base, _, _ := strings.Cut(lib, ".so")
			if !slices.Contains([]string{"libc", "libm", "libpthread", "libresolv", "libdl"}, base) {
				t.Errorf("%s opens %s when it starts", name, lib)
			}
		}
	}
}

// opens are the libraries that a command has opened until its end, as the dynamic linker tells.
func opens(t *testing.T, name string, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	told := filepath.Join(t.TempDir(), "opened")
	cmd.Env = append(os.Environ(), "LD_DEBUG=files", "LD_DEBUG_OUTPUT="+told)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", filepath.Base(name), args, err, out)
	}
	files, err := filepath.Glob(told + ".*") // one for each process
	if err != nil {
		t.Fatal(err)
	}
	var opened []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if _, rest, ok := strings.Cut(line, "file="); ok {
				lib, _, _ := strings.Cut(rest, " ")
				opened = append(opened, filepath.Base(lib))
			}
		}
	}
	slices.Sort(opened)
	return slices.Compact(opened)
}
