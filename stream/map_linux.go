//go:build linux

package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A mapped ring is a file with the layout below.
//
//	0      magic "gobtlrng", version 1, MessageBytes, Regions, RegionMessages
//	40     1 if the producer has finished, 1 if the stream is over
//	4096   descriptors of the regions
//	next multiple of 4096   memory of the regions
//
// All numbers are u64 in the machine's byte order. The descriptor of a region occupies whole cache
// lines. The words of a region's descriptor are the state (0 free, 1 busy, 2 populated), the first
// ordinal, and the numbers of messages, received messages and skipped ordinals. After the words of
// a region's descriptor there is a bitmap with one bit per message.
const (
	mapMagic   = "gobtlrng"
	mapVersion = 1
	mapPage    = 4096
	mapEnd     = 40
)

// mapLayout returns the offset of the regions in the file of a mapped ring, and the size of the
// file.
func mapLayout(g Geometry) (mem, size int) {
	mem = mapPage + (descriptorWords(g)*g.Regions*8+mapPage-1)/mapPage*mapPage
	return mem, mem + g.Bytes()
}

// CreateRing makes a ring in a new file, for instance in /dev/shm. Other processes can open the
// ring with OpenRing. A process that opens the ring can fill regions for a sender, or read regions
// of a receiver. The sender or receiver must run in the process that created the ring. CreateRing
// replaces an existing file. Ring.Close does not remove the file.
func CreateRing(file string, g Geometry) (*Ring, error) {
	g = g.WithDefaults()
	if err := g.Validate(); err != nil {
		return nil, err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o660)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	defer f.Close()
	memAt, size := mapLayout(g)
	// The disk space of the whole file is allocated in advance, because a store into the mapping would
	// raise SIGBUS if the disk were full.
	if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(size)); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s: room for %d bytes: %w", ErrFile, file, size, err),
			os.Remove(file))
	}
	r, whole, err := mapRing(f, g, memAt, size)
	if err != nil {
		return nil, errors.Join(err, os.Remove(file))
	}
	for i, v := range []uint64{
		mapVersion, uint64(g.MessageBytes), uint64(g.Regions), uint64(g.RegionMessages),
	} {
		binary.NativeEndian.PutUint64(whole[8+8*i:], v)
	}
	copy(whole, mapMagic) // written last, because OpenRing refuses a file without the magic
	return r, nil
}

// OpenRing maps a ring that another process has created with CreateRing.
func OpenRing(file string) (*Ring, error) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	defer f.Close()
	head := make([]byte, 40)
	if _, err := f.ReadAt(head, 0); err != nil || string(head[:8]) != mapMagic {
		return nil, fmt.Errorf("%w: %s is no ring", ErrFile, file)
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(head[8*i:]) }
	if word(1) != mapVersion || max(word(2), word(3), word(4)) > MessageBytesMax {
		return nil, fmt.Errorf("%w: %s is a ring of another version, or damaged", ErrFile, file)
	}
	g := Geometry{int(word(2)), int(word(3)), int(word(4))}
	if err := g.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFile, file, err)
	}
	memAt, size := mapLayout(g)
	if st, err := f.Stat(); err != nil || st.Size() < int64(size) {
		return nil, fmt.Errorf("%w: %s is cut off", ErrFile, file)
	}
	r, _, err := mapRing(f, g, memAt, size)
	return r, err
}

func mapRing(f *os.File, g Geometry, memAt, size int) (*Ring, []byte, error) {
	whole, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: mapping %s: %w", ErrFile, f.Name(), err)
	}
	r := &Ring{
		geo: g, blocks: [][]byte{whole[memAt:size:size]}, stride: descriptorWords(g), polled: true,
	}
	r.words = unsafe.Slice((*uint64)(unsafe.Pointer(&whole[mapPage])), r.stride*g.Regions)
	r.counts = make([]regionCounts, g.Regions)
	r.end = unsafe.Slice((*uint64)(unsafe.Pointer(&whole[mapEnd])), endWords)
	r.unmap = func() error { return unix.Munmap(whole) }
	return r, whole, nil
}
