//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// forwarded returns the signals that btlrun forwards to the ranks. A signal that this process
// ignores since its start, as under nohup, is not forwarded. SIGQUIT counts as ignored if SIGINT
// is, because Go does not tell, and shells ignore both together.
func forwarded() []os.Signal {
	all := []os.Signal{syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT}
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTSTP} {
		if !ignored(s) {
			all = append(all, s)
		}
	}
	if ignored(syscall.SIGINT) {
		signal.Ignore(syscall.SIGQUIT)
		return all
	}
	return append(all, syscall.SIGINT, syscall.SIGQUIT)
}

// The function ignored reports whether this process was started with signal s ignored. The result
// of ignored is valid only for signals that the Go runtime does not handle itself.
func ignored(s syscall.Signal) bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return signal.Ignored(s)
	}
	lines := bufio.NewScanner(bytes.NewReader(status))
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "SigIgn:"); ok {
			mask, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			return err == nil && mask>>(s-1)&1 == 1
		}
	}
	return signal.Ignored(s)
}

// suspend stops this process until it is continued.
func suspend() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

// input returns the reader of standard input.
func input(stdin *os.File) io.Reader {
	if !term.IsTerminal(int(stdin.Fd())) {
		return stdin
	}
	signal.Ignore(syscall.SIGTTIN) // A read in the background then fails.
	return terminal{stdin}
}

// terminal reads from a terminal only while this process is in the foreground. The kernel would
// stop a background process that reads from its terminal.
type terminal struct{ file *os.File }

// lookEvery is the interval between two checks of the foreground process group.
const lookEvery = 100 * time.Millisecond

// Read implements io.Reader.
func (t terminal) Read(b []byte) (int, error) {
	for {
		for t.background() {
			time.Sleep(lookEvery)
		}
		n, err := t.file.Read(b)
		if errors.Is(err, syscall.EIO) && t.background() {
			continue
		}
		return n, err
	}
}

// background reports whether another process group is in the foreground of the terminal. A terminal
// that does not control this process has no background.
func (t terminal) background() bool {
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	return err == nil && group != unix.Getpgrp()
}
