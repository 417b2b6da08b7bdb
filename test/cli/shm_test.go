//go:build unix

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestShmIsGivenBack ends runs over libfabric's shared memory by each signal that asks a program to
// end, and by the death of the other side. Nothing is left in /dev/shm. Of a program that is killed
// its own endpoints stay, for nobody removes those: the test does.
func TestShmIsGivenBack(t *testing.T) {
	needUDP(t)
	run := append([]string{"--provider", "ofi/shm"}, long...)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		client := start(t, append([]string{"pair"}, run...)...)
		server := child(t, client)
		needShmFiles(t, client.cmd.Process.Pid)
		needShmFiles(t, server)
		client.signal(sig)
		if status := client.wait(margin); status != 128+int(sig) {
			t.Errorf("%v: status %d", sig, status)
		}
		if left := append(shmFiles(t, client.cmd.Process.Pid), shmFiles(t, server)...); len(left) > 0 {
			t.Errorf("%v left %v", sig, left)
		}
	}

	server, addr := startServe(t, "--once")
	client := start(t, append([]string{"run", addr}, run...)...)
	busy(t, server.cmd.Process.Pid)
	needShmFiles(t, server.cmd.Process.Pid)
	needShmFiles(t, client.cmd.Process.Pid)
	client.signal(syscall.SIGKILL)
	if status := server.wait(2*time.Second + margin); status != 1 {
		t.Errorf("the client is killed: status %d", status)
	}
	if left := shmFiles(t, server.cmd.Process.Pid); len(left) > 0 {
		t.Errorf("the other side of one that was killed has left %v", left)
	}
}

// needShmFiles asks that a process has endpoints with files, and removes them with the test.
func needShmFiles(t *testing.T, pid int) {
	t.Helper()
	eventually(t, "an endpoint has a file", func() bool { return len(shmFiles(t, pid)) > 0 })
	t.Cleanup(func() {
		for _, file := range shmFiles(t, pid) {
			_ = os.Remove(file)
		}
	})
}

// shmFiles are the files of a process' endpoints.
func shmFiles(t *testing.T, pid int) []string {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/dev/shm/%d:*", pid))
	if err != nil {
		t.Fatal(err)
	}
	return files
}
