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

// forwarded are the signals that go on to the ranks. What this process was started to ignore, as
// nohup and shells without job control have it, stays ignored. Go cannot tell that of SIGQUIT any
// more, which shells have ignored together with SIGINT.
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

// ignored says whether this process was started to ignore a signal, of those that Go lets alone
// then.
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

// input is what is read as standard input.
func input(stdin *os.File) io.Reader {
	if !term.IsTerminal(int(stdin.Fd())) {
		return stdin
	}
	signal.Ignore(syscall.SIGTTIN) // A read in the background fails instead.
	return terminal{stdin}
}

// terminal is read only while this process is in its foreground. Otherwise the input belongs to
// other processes, and the kernel stops a background process that reads it.
type terminal struct{ file *os.File }

// lookEvery is the interval between checks of the foreground process group.
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

// background says whether the terminal has another process group in its foreground. What is not
// this process's own terminal has none.
func (t terminal) background() bool {
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	return err == nil && group != unix.Getpgrp()
}
