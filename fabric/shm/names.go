//go:build linux

package shm

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
)

const (
	nameVersion = 1
	idBytes     = 16
	nameBytes   = 1 + 8 + 4 + idBytes + 2

	memoryDir = "/dev/shm"
)

// A "place" is a hash that identifies a /dev/shm on one host, until the host reboots. Processes
// that have the same /dev/shm compute the same hash.
type place uint64

// findPlace computes a hash of the kernel's boot id, and of the device and inode of /dev/shm.
func findPlace() (place, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0, err
	}
	var st unix.Stat_t
	if err := unix.Stat(memoryDir, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: memoryDir, Err: err}
	}
	h := fnv.New64a()
	h.Write(boot)
	var dev [16]byte
	binary.LittleEndian.PutUint64(dev[:], st.Dev)
	binary.LittleEndian.PutUint64(dev[8:], st.Ino)
	h.Write(dev[:])
	return place(h.Sum64()), nil
}

type name struct {
	place    place
	uid      uint32
	id       [idBytes]byte // of the domain
	endpoint uint16
}

func (n *name) append(b []byte) []byte {
	b = append(b, nameVersion)
	b = binary.LittleEndian.AppendUint64(b, uint64(n.place))
	b = binary.LittleEndian.AppendUint32(b, n.uid)
	b = append(b, n.id[:]...)
	return binary.LittleEndian.AppendUint16(b, n.endpoint)
}

// parseName decodes an endpoint name. parseName returns an error for a name from a different host,
// container or user than the argument "own".
func parseName(b []byte, own *name) (n name, err error) {
	if len(b) != nameBytes || b[0] != nameVersion {
		return n, fmt.Errorf("%w: %d bytes are no name of version %d", fabric.ErrBadName, len(b),
			nameVersion)
	}
	n.place = place(binary.LittleEndian.Uint64(b[1:]))
	n.uid = binary.LittleEndian.Uint32(b[9:])
	copy(n.id[:], b[13:])
	n.endpoint = binary.LittleEndian.Uint16(b[13+idBytes:])
	switch {
	case n.place != own.place:
		return n, fmt.Errorf("%w: of another host, or of a container with another %s",
			fabric.ErrBadName, memoryDir)
	case n.uid != own.uid:
		return n, fmt.Errorf("%w: of user %d, this is user %d", fabric.ErrBadName, n.uid, own.uid)
	}
	return n, nil
}

func (n *name) socketPath() string { return filepath.Join(socketDir(n.uid), n.fileName()) }

func (n *name) fileName() string { return hex.EncodeToString(n.id[:]) }

func socketDir(uid uint32) string { return filepath.Join(memoryDir, fmt.Sprintf("gobtl-%d", uid)) }

// newName makes the name of a new domain from random bytes.
func newName() (name, error) {
	p, err := findPlace()
	if err != nil {
		return name{}, err
	}
	n := name{place: p, uid: uint32(os.Geteuid())}
	rand.Read(n.id[:]) // never fails (crypto/rand)
	return n, nil
}

// openDir opens the directory of the user's Unix sockets, and creates the directory if it is
// missing. Only the user has access to the directory of its Unix sockets, because a different user
// with access could impersonate a peer.
func openDir(uid uint32) (fd int, err error) {
	dir := socketDir(uid)
	if err := unix.Mkdir(dir, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, &os.PathError{Op: "mkdir", Path: dir, Err: err}
	}
	const flags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_RDONLY
	fd, err = unix.Open(dir, flags, 0)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		var st unix.Stat_t
		if unix.Lstat(dir, &st) == nil {
			return -1, notOurs(dir, &st)
		}
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && (st.Uid != uid || st.Mode&0o077 != 0) {
		err = notOurs(dir, &st)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// notOurs returns the error of openDir if the path "dir" of this user's sockets exists, but is not
// a directory to which only this user has access. If "dir" belongs to a different user, this user
// cannot use the provider until the owner of "dir", or root, has removed "dir".
func notOurs(dir string, st *unix.Stat_t) error {
	return fmt.Errorf("%w: %s belongs to user %d, mode %#o; it must be a directory of this user alone",
		fabric.ErrUnavailable, dir, st.Uid, st.Mode)
}

// inDir returns a path of the file "name" in the directory that is open as the descriptor "dir".
func inDir(dir int, name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", dir, name) }

// The function "sweep" removes Unix sockets of processes that have ended. Because the number of
// sockets in the directory has no limit, one call of "sweep" checks only a few sockets, starting at
// a random position in the directory. The function "sweep" skips a socket that was created or
// checked less than a minute ago, because each check wakes the process that listens on the socket.
func sweep(fd int, c *closers) {
	const (
		listed  = 256
		checked = 16
		age     = time.Minute
	)
	dir, err := os.Open(inDir(fd, "."))
	if err != nil {
		return
	}
	entries, _ := dir.ReadDir(listed)
	dir.Close()
	var first [1]byte
	rand.Read(first[:]) // never fails (crypto/rand)
	looked := 0
	for i := range entries {
		e := entries[(i+int(first[0]))%len(entries)]
		info, err := e.Info()
		if err != nil || e.Type() != os.ModeSocket || !olderThan(info.ModTime(), age) {
			continue
		}
		removeIfDead(inDir(fd, e.Name()), c)
		if looked++; looked == checked {
			return
		}
	}
}

// buryPeer removes the Unix socket of a peer that has ended, if the peer has not removed this
// socket itself.
func buryPeer(n *name, c *closers) {
	dir, err := openDir(n.uid)
	if err != nil {
		return
	}
	defer unix.Close(dir)
	removeIfDead(inDir(dir, n.fileName()), c)
}

// removeIfDead removes a socket if no process listens on it.
func removeIfDead(path string, c *closers) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer c.drop(nobody, fd)
	if errors.Is(unix.Connect(fd, &unix.SockaddrUnix{Name: path}), unix.ECONNREFUSED) {
		_ = unix.Unlink(path) // another process may have removed the socket
		return
	}
	// The modification time of a socket's file is the time of the latest check that has found the
	// owner of the socket alive.
	_ = unix.UtimesNanoAt(unix.AT_FDCWD, path, nil, unix.AT_SYMLINK_NOFOLLOW)
}
