package tap

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"gobtl/internal/testenv"
)

// openFDs opens queues of a device as somebody does who hands them over.
func openFDs(t *testing.T, name string, n int) (fds []int) {
	t.Helper()
	for range n {
		fd, err := unix.Open(clonePath, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			testenv.Missing(t, "no TAP devices here: %v", err)
		}
		ifr, err := unix.NewIfreq(name)
		if err != nil {
			t.Fatal(err)
		}
		ifr.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_MULTI_QUEUE)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
			unix.Close(fd)
			if errors.Is(err, unix.EPERM) {
				testenv.Missing(t, "TAP devices need CAP_NET_ADMIN: %v", err)
			}
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	return fds
}

func isOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

// TestWrongDescriptors: descriptors that are no device are left alone, whatever stands beside them.
func TestWrongDescriptors(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	good := openFDs(t, fmt.Sprintf("wr%d", os.Getpid()%100000), 1)
	wrong := int(r.Fd())
	for _, fds := range [][]int{{wrong}, {wrong, good[0]}, {good[0], wrong}} {
		if _, err := Open(Config{FDs: fds, Queues: 2}); !errors.Is(err, ErrDevice) {
			t.Fatalf("%v: %v", fds, err)
		}
		if !isOpen(wrong) || !isOpen(good[0]) {
			t.Fatalf("%v: a descriptor is closed", fds)
		}
	}
	d, err := Open(Config{FDs: good})
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	if isOpen(good[0]) {
		t.Error("a device's own descriptor stays open")
	}
}

// TestSurplusDescriptors: the kernel gives no frames to a queue that nobody reads.
func TestSurplusDescriptors(t *testing.T) {
	fds := openFDs(t, fmt.Sprintf("su%d", os.Getpid()%100000), 3)
	d, err := Open(Config{FDs: fds, Queues: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if len(d.Queues()) != 2 || !isOpen(fds[1]) || isOpen(fds[2]) {
		t.Errorf("%d queues; open: %v, %v", len(d.Queues()), isOpen(fds[1]), isOpen(fds[2]))
	}
}
