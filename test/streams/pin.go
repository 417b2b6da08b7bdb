package main

import (
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// cpusMax exceeds the number of any CPU.
const cpusMax = 1024

// pins holds the CPUs of the server and of the caller, or is nil if the processes are not pinned.
type pins []int

// choosePins returns the first two CPUs that this process may use, or the same CPU twice if there
// is only one.
func choosePins() (pins, error) {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return nil, err
	}
	var p pins
	for cpu := range cpusMax {
		if may.IsSet(cpu) && len(p) < 2 {
			p = append(p, cpu)
		}
	}
	return append(p, p...)[:2], nil
}

// start starts a process that is pinned from its beginning, so that Go sees one CPU.
func (p pins) start(cmd *exec.Cmd, which int) error {
	if p == nil {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	one.Set(p[which])
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	err := cmd.Start()
	if e := unix.SchedSetaffinity(0, &before); err == nil {
		err = e
	}
	return err
}
