package systems

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pinThread pins the calling thread, and thereby the processes that it starts.
func pinThread(cpu int) error {
	if cpu == anyCPU {
		return nil
	}
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}

// childAttr makes a child process the leader of a session, and lets it die with the thread that
// started it.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// signalGroup signals the leader of a session and its process group.
func signalGroup(leader *os.Process, sig syscall.Signal) error {
	return unix.Kill(-leader.Pid, sig)
}

// endSession kills every process of a session. The kill is repeated, because processes may start
// other processes at the same time.
func endSession(session int) {
	for range 50 {
		pids := sessionOf(session)
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL) // It may have ended by itself.
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// sessionOf lists the processes of a session that have not ended.
func sessionOf(session int) []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var pids []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		// The line has the form "pid (name) state parent group session ...", where name may contain
		// blanks and parentheses.
		at := strings.LastIndexByte(string(stat), ')')
		fields := strings.Fields(string(stat[at+1:]))
		if len(fields) > 3 && fields[0] != "Z" && fields[3] == strconv.Itoa(session) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// listening reports whether a process listens on a TCP port of this host.
func listening(port int) bool {
	suffix := fmt.Sprintf(":%04X", port)
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			// The line has the form "number local remote state ...", where state 0A is LISTEN.
			fields := strings.Fields(line)
			if len(fields) > 3 && strings.HasSuffix(fields[1], suffix) && fields[3] == "0A" {
				return true
			}
		}
	}
	return false
}
