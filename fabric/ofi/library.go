//go:build linux && cgo

package ofi

/*
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
)

// soname is the name of libfabric's shared library. The dynamic linker searches for libfabric in
// LD_LIBRARY_PATH, in the program's run path, and in the system's directories.
const soname = "libfabric.so.1"

// The first call of the function "load" loads libfabric. If loading fails, every call of the
// function "load" returns the same error.
var load = sync.OnceValue(func() error { return loadFrom(soname) })

func loadFrom(file string) error {
	name := C.CString(file)
	defer C.free(unsafe.Pointer(name))
	var why [C.GOFI_TEXT_MAX]C.char
	var code C.int
	guard(func() { code = C.gofi_load(name, &why[0], C.GOFI_TEXT_MAX) })
	switch code {
	case 0:
		return nil
	case -2:
		return fmt.Errorf("%w: %s; for the ofi/ providers install them (Debian: libfabric-dev) and "+
			"build again", fabric.ErrUnavailable, C.GoString(&why[0]))
	default:
		return fmt.Errorf("%w: libfabric cannot be loaded: %s; for the ofi/ providers install it "+
			"(Debian: libfabric1)", fabric.ErrUnavailable, C.GoString(&why[0]))
	}
}

// The function "guard" holds guardLock, because two concurrent calls of "guard" would undo each
// other's changes of signal handlers and descriptors.
var guardLock sync.Mutex

// The function "guard" calls the function "call", which loads libfabric, or opens or closes a
// libfabric object. After the call of the function "call", "guard" restores the process's signal
// handlers, because Go's runtime needs its own signal handlers. Child processes do not inherit the
// descriptors that the function "call" opens. The process cannot start a child process while the
// function "call" runs, because the function "guard" holds the fork lock of package syscall.
func guard(call func()) {
	guardLock.Lock()
	defer guardLock.Unlock()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	before := inheritable()
	C.gofi_signals_save()
	call()
	C.gofi_signals_restore()
	for _, fd := range inheritable() {
		if !slices.Contains(before, fd) {
			unix.CloseOnExec(fd)
		}
	}
}

// The function "inheritable" lists the file descriptors that a child process would inherit.
func inheritable() []int {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var fds []int
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}
