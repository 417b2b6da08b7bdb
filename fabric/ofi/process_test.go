//go:build linux && cgo

package ofi

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gobtl/fabric"
)

// childVariable makes a process of the test binary a child. The child opens an endpoint of the
// named provider ("none" for no endpoint), and obeys commands on its standard input.
const childVariable = "GOBTL_OFI_CHILD"

// leaveVariable makes a child close all objects and end when the child is ready.
const leaveVariable = "GOBTL_OFI_LEAVE"

var nobody *int

// recovered dereferences nil, and recovers.
func recovered() (ok bool) {
	defer func() { ok = recover() != nil }()
	return *nobody == 1
}

// child answers each line with one line, and closes nothing unless leaveVariable is set.
func child(prov string) {
	var stop atomic.Bool
	ended := make(chan int)
	go func() {
		n := 1
		for recovered(); !stop.Load(); n++ {
			recovered()
		}
		ended <- n
	}()
	name := ""
	if prov != "none" {
		d, err := fabric.Open(fabric.Info{Provider: prov, Node: "127.0.0.1"}, fabric.DomainConfig{})
		if err != nil {
			fmt.Println(err)
			return
		}
		if prov == "ofi/shm" {
			stop.Store(true) // a nil dereference inside sigaction would find no handler
			n := <-ended
			go func() { ended <- n }()
		}
		e, err := d.OpenEndpoint(fabric.EndpointConfig{})
		if err != nil {
			fmt.Println(err)
			return
		}
		name = string(e.Name())
		if os.Getenv(leaveVariable) != "" {
			defer d.Close()
		}
	}
	stop.Store(true)
	fmt.Println("ready, recovered", <-ended > 0)
	if os.Getenv(leaveVariable) != "" {
		return
	}
	terms := make(chan os.Signal, 1)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case "name":
			fmt.Printf("%q\n", name)
		case "nil":
			fmt.Println("recovered", recovered())
		case "notify":
			signal.Notify(terms, syscall.SIGTERM)
			fmt.Println("noticing")
		case "noticed":
			fmt.Println(<-terms)
		case "descriptors":
			out, err := exec.Command("ls", "/proc/self/fd").Output()
			fmt.Println(strings.Fields(string(out)), err)
		default:
			fmt.Println("alive")
		}
	}
}

// process is a child under test.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	stderr bytes.Buffer
}

// spawn starts a child, possibly with a command line before the child's, and waits until the child
// is ready.
func spawn(t *testing.T, prov string, by ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(slices.Clone(by), self)
	p := &process{t: t, cmd: exec.Command(args[0], args[1:]...)}
	p.cmd.Env = append(os.Environ(), childVariable+"="+prov)
	p.cmd.Dir = t.TempDir()
	p.cmd.Stderr = &p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	t.Cleanup(func() {
		late.Stop()
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	if got := p.line(); got != "ready, recovered true" {
		_ = p.in.Close()
		_ = p.cmd.Wait()
		t.Fatalf("%s: %q, want that it is ready; %v\n%s", prov, got, p.cmd.ProcessState,
			p.stderr.String())
	}
	return p
}

func (p *process) line() string {
	if !p.out.Scan() {
		return "the end"
	}
	return p.out.Text()
}

// ask sends a line and returns the answer.
func (p *process) ask(line string) string {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return err.Error()
	}
	return p.line()
}

func (p *process) want(line, want string) {
	p.t.Helper()
	if got := p.ask(line); got != want {
		_ = p.cmd.Wait()
		p.t.Errorf("%s: %q, want %q; %v\n%s", line, got, want, p.cmd.ProcessState, p.stderr.String())
	}
}

// ends sends a signal. The result describes how the process ends, and which files the process
// leaves in its folder.
func (p *process) ends(by syscall.Signal) string {
	p.t.Helper()
	if err := p.cmd.Process.Signal(by); err != nil {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait()
	files, err := filepath.Glob(filepath.Join(p.cmd.Dir, "*"))
	if err != nil {
		p.t.Fatal(err)
	}
	return fmt.Sprint(p.cmd.ProcessState, files)
}

// TestProcessIsItsOwn checks that a program with libfabric ends, continues and recovers like a
// program without libfabric.
func TestProcessIsItsOwn(t *testing.T) {
	notRaced(t)
	without := make(map[syscall.Signal]string)
	for _, prov := range []string{"none", "ofi/udp", "ofi/shm"} {
		t.Run(prov, func(t *testing.T) {
			for _, by := range []syscall.Signal{
				syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGABRT,
			} {
				p := spawn(t, prov)
				removeShm(t, p)
				got := p.ends(by)
				if prov == "none" {
					without[by] = got
				} else if got != without[by] {
					t.Errorf("%v: %s, without libfabric %s", by, got, without[by])
				}
			}
			p := spawn(t, prov, "sh", "-c", `trap "" INT; exec "$0"`)
			removeShm(t, p)
			if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			p.want("after an ignored signal", "alive")
			p.want("nil", "recovered true")
			p.want("notify", "noticing")
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			p.want("noticed", "terminated")
			p.want("after a signal that was caught", "alive")
		})
	}
}

// removeShm removes the files that a provider with shared memory leaves when its process is killed.
func removeShm(t *testing.T, p *process) {
	t.Helper()
	if file, ok := shmFile(p.ask("name")); ok {
		t.Cleanup(func() { _ = os.Remove(file) })
	}
}

// shmFile returns the file of the endpoint with a quoted name, if the endpoint belongs to shm.
func shmFile(quoted string) (string, bool) {
	name, ok := strings.CutPrefix(strings.Trim(quoted, `"`), shmMark)
	return shmFolder + "/" + strings.TrimSuffix(name, `\x00`), ok
}

// TestShmStaysReachable checks the signal handlers. The shm provider's own handlers would remove
// the names of its endpoints, even if the program continues.
func TestShmStaysReachable(t *testing.T) {
	p := spawn(t, "ofi/shm")
	file, ok := shmFile(p.ask("name"))
	if !ok {
		t.Fatalf("%q is no name of shm", file)
	}
	t.Cleanup(func() { _ = os.Remove(file) })
	p.want("notify", "noticing")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.want("noticed", "terminated")
	p.want("nil", "recovered true")
	if _, err := os.Stat(file); err != nil {
		t.Errorf("after a caught signal and a recovered panic: %v", err)
	}
}

// TestNotInherited checks that a program started by this process has none of libfabric's
// descriptors. An inherited socket would keep its port after this process has ended.
func TestNotInherited(t *testing.T) {
	notRaced(t)
	want := ""
	for _, prov := range []string{
		"none", "ofi/udp", "ofi/udp;ofi_rxd", "ofi/tcp", "ofi/net", "ofi/sockets", "ofi/shm",
	} {
		if prov == "ofi/net" && netIsTCP(t) {
			continue
		}
		p := spawn(t, prov)
		removeShm(t, p)
		got := p.ask("descriptors")
		if prov == "none" {
			want = got
		} else if got != want {
			t.Errorf("%s: a child has the descriptors %s, without libfabric %s", prov, got, want)
		}
	}
}

// TestOpensWithoutInput checks that standard input may be a file that cannot be waited for, as in
// services and batch jobs.
func TestOpensWithoutInput(t *testing.T) {
	notRaced(t)
	for _, prov := range []string{
		"ofi/udp", "ofi/udp;ofi_rxd", "ofi/tcp", "ofi/net", "ofi/sockets", "ofi/shm",
	} {
		if prov == "ofi/net" && netIsTCP(t) {
			continue
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		for _, input := range []string{os.DevNull, self} {
			in, err := os.Open(input)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Env = append(os.Environ(), childVariable+"="+prov, leaveVariable+"=1")
			cmd.Stdin = in
			out, err := cmd.CombinedOutput()
			in.Close()
			if err != nil || !strings.HasPrefix(string(out), "ready") {
				t.Errorf("%s with the input %s: %v, %s", prov, input, err, out)
			}
		}
	}
}
