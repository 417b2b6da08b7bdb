package gobtl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobtl"
	"gobtl/internal/testenv"
)

// doorOf is the name of the Unix socket at which a Node of this user exchanges cards.
func doorOf(address string) string { return fmt.Sprintf("@gobtl/%d/%s", os.Geteuid(), address) }

// TestSilentVisitors: processes of this user that connect to the Unix socket of a Node, and say
// nothing, keep no other one from it.
func TestSilentVisitors(t *testing.T) {
	needMemory(t)
	cfg := gobtl.Config{SharedMemory: true}
	for _, silent := range []int{2, 200} {
		server, client := listen(t, cfg, "127.0.0.1:0"), open(t, cfg)
		for range silent {
			c, err := net.Dial("unix", doorOf(server.Address()))
			must(t, err)
			defer func() { _ = c.Close() }()
		}
		if peer := dial(t, client, server.Address()); peer.Network() != "shm" {
			t.Errorf("beside %d silent visitors the network is %s", silent, peer.Network())
		}
	}
}

// TestDoorAcceptFails: a Node that has no descriptor for a visitor at one time accepts later ones.
func TestDoorAcceptFails(t *testing.T) {
	needMemory(t)
	cfg := gobtl.Config{SharedMemory: true}
	server, client := listen(t, cfg, "127.0.0.1:0"), open(t, cfg)
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must(t, err)
	defer func() { _ = syscall.Close(fd) }()
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	none := limit
	none.Cur = 3
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: doorOf(server.Address())})
	time.Sleep(200 * time.Millisecond) // The server tries to accept, in vain.
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	must(t, err)
	if peer := dial(t, client, server.Address()); peer.Network() != "shm" {
		t.Errorf("after a failure of accept the network is %s", peer.Network())
	}
}

// TestDoorOfNewMemory: a Node whose link over shared memory has failed offers a new one.
func TestDoorOfNewMemory(t *testing.T) {
	needMemory(t)
	cfg := gobtl.Config{SharedMemory: true}
	server, client := listen(t, cfg, "127.0.0.1:0"), open(t, cfg)
	for _, l := range server.Links() {
		if l.Address() != server.Address() {
			must(t, l.Runner().Close(t.Context()))
		}
	}
	if peer := dial(t, client, server.Address()); peer.Network() != "shm" {
		t.Errorf("after a failure of the memory the network is %s", peer.Network())
	}
}

// asNobody runs fn with the system calls of another user.
func asNobody(t *testing.T, fn func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.Missing(t, "needs root to act as another user")
	}
	const nobody, same = 65534, ^uintptr(0)
	become := func(uid uintptr) { // this thread alone
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, same, uid, same); e != 0 {
			panic(e)
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	become(nobody)
	defer become(0)
	fn()
}

// TestForeignVisitor: a Node tells its card to processes of its own user alone.
func TestForeignVisitor(t *testing.T) {
	needMemory(t)
	server := listen(t, gobtl.Config{SharedMemory: true}, "127.0.0.1:0")
	door := doorOf(server.Address())
	visit := func() (answer string) {
		c, err := net.Dial("unix", door)
		must(t, err)
		defer func() { _ = c.Close() }()
		must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		_ = json.NewEncoder(c).Encode(map[string]string{"Module": "00", "Address": "127.0.0.1:1"})
		b, _ := io.ReadAll(c) // A Node that refuses the visitor may reset the connection.
		return string(b)
	}
	if card := visit(); !strings.Contains(card, server.Address()) {
		t.Errorf("its own user is told %q", card)
	}
	asNobody(t, func() {
		if card := visit(); card != "" {
			t.Errorf("another user is told %q", card)
		}
	})
}

// TestForeignDoor: another user has the name of a Node's Unix socket. A Node that dials the address
// tells that user nothing, and uses UDP.
func TestForeignDoor(t *testing.T) {
	needMemory(t)
	server := listen(t, gobtl.Config{}, "127.0.0.1:0") // without shared memory
	client := open(t, gobtl.Config{SharedMemory: true})
	name := doorOf(server.Address())
	var door net.Listener
	asNobody(t, func() {
		var err error
		door, err = net.Listen("unix", name)
		must(t, err)
	})
	defer func() { _ = door.Close() }()
	if l, ok := door.(*net.UnixListener); ok {
		must(t, l.SetDeadline(time.Now().Add(20*time.Second)))
	}
	heard := make(chan string, 1)
	go func() {
		c, err := door.Accept()
		if err != nil {
			heard <- err.Error()
			return
		}
		defer func() { _ = c.Close() }()
		b, _ := io.ReadAll(c)
		heard <- string(b)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	peer, err := client.Dial(ctx, server.Address())
	must(t, err)
	if text := <-heard; text != "" || peer.Network() != "udp" {
		t.Errorf("the other user hears %q; the network is %s", text, peer.Network())
	}
}
