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

// soname is the library that is loaded. The dynamic linker looks for it as for any other:
// LD_LIBRARY_PATH, the program's own run path, the system's folders.
const soname = "libfabric.so.1"

// load loads libfabric at its first call, and returns why that is not possible, each time.
var load = sync.OnceValue(func() error { return loadFrom(soname) })

func loadFrom(file string) error {
	name := C.CString(file)
	defer C.free(unsafe.Pointer(name))
	var why [C.GOFI_TEXT_MAX]C.char
	var code C.int
	guard(func() { code = C.gofi_load(name, &why[0], C.GOFI_TEXT_MAX) })
	if code != 0 {
		return fmt.Errorf("%w: libfabric cannot be loaded: %s; for the ofi/ providers install it "+
			"(Debian: libfabric1)", fabric.ErrUnavailable, C.GoString(&why[0]))
	}
	return nil
}

// guardLock is held while a call of libfabric is guarded: two would undo what the other one saw.
var guardLock sync.Mutex

// guard makes a call of libfabric that loads libraries, or opens or closes something. Behind it the
// process's signal handlers are what they were (Go could not recover from a nil dereference, and an
// ignored signal would end the program), and descriptors that were opened meanwhile are not
// inherited by programs that this one starts: no fork falls between, for the lock of package
// syscall is held.
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

// inheritable lists the descriptors that programs started by this one would inherit. There are few:
// Go's own are not among them.
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
