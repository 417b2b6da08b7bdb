package layers

import (
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/cmd/btlbench/plan"
)

// AllowedCPUs lists the CPUs on which the process may run.
func AllowedCPUs() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(os.Getpid(), &set) != nil {
		return nil
	}
	var cpus []int
	for cpu := range plan.CPUsMax {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// PinThread pins the calling thread, which must be locked to its goroutine.
func PinThread(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}

// KeepOff moves the existing threads, and threads that they start later, away from the given CPUs,
// if other CPUs remain. If a thread ends while KeepOff runs, this is no error.
func KeepOff(hot []int) {
	var rest unix.CPUSet
	for _, cpu := range AllowedCPUs() {
		rest.Set(cpu)
	}
	for _, cpu := range hot {
		rest.Clear(cpu)
	}
	if rest.Count() == 0 {
		return
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, task := range tasks {
		if tid, err := strconv.Atoi(task.Name()); err == nil {
			_ = unix.SchedSetaffinity(tid, &rest)
		}
	}
}

// processCPU is the CPU time of all threads of the process, in user space and in the kernel.
func processCPU() time.Duration {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &ru) != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// ChildAttr makes a child process die with its parent, and receive no signals from the terminal.
// The thread that starts the child process must live as long as the child process.
func ChildAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
