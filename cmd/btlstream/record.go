package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"gobtl/stream"
)

// recordBytes is the size in bytes of the file record for the arrival of a datagram. A record
// begins with the key, the ordinal and the number of messages (8 bytes each, little-endian). A
// record ends with the number of the datagram (4 bytes) and a flag for a new datagram (4 bytes).
const recordBytes = 32

// partSuffix is appended to the name of a file while the file is incomplete.
const partSuffix = ".part"

// recorder writes the arrivals of datagrams to a pcap file. The file has times in nanoseconds, and
// the link type 147, which is free for private use. A nil recorder records nothing.
type recorder struct {
	name string
	lock sync.Mutex // the port's goroutine records, another one closes
	file *os.File
	buf  *bufio.Writer
	pcap *pcapgo.Writer
	data [recordBytes]byte
	err  error
}

func newRecorder(name string) (*recorder, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // A nil recorder does nothing.
	}
	f, err := os.Create(name + partSuffix)
	if err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	buf := bufio.NewWriterSize(f, 1<<20)
	r := &recorder{name: name, file: f, buf: buf, pcap: pcapgo.NewWriterNanos(buf)}
	if err := r.pcap.WriteFileHeader(recordBytes, layers.LinkType(147)); err != nil {
		return nil, errors.Join(fmt.Errorf("--record: %w", err), f.Close())
	}
	return r, nil
}

// The method arrival returns the function that records arrivals, or nil if r is nil.
func (r *recorder) arrival() func(stream.Arrival) {
	if r == nil {
		return nil
	}
	return r.record
}

func (r *recorder) record(a stream.Arrival) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.err != nil || r.file == nil {
		return
	}
	b := r.data[:]
	binary.LittleEndian.PutUint64(b, a.Key)
	binary.LittleEndian.PutUint64(b[8:], a.Ordinal)
	binary.LittleEndian.PutUint64(b[16:], a.Messages)
	binary.LittleEndian.PutUint32(b[24:], a.Datagram)
	binary.LittleEndian.PutUint32(b[28:], 0)
	if a.New {
		b[28] = 1
	}
	r.err = r.pcap.WritePacket(gopacket.CaptureInfo{
		Timestamp: time.Now(), CaptureLength: recordBytes, Length: max(a.Bytes, recordBytes),
	}, b)
}

// close writes the remaining arrivals, and renames the file to its final name. After a write error,
// the file keeps its temporary name.
func (r *recorder) close() error {
	if r == nil {
		return nil
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	err := errors.Join(r.err, r.buf.Flush(), r.file.Sync(), r.file.Close())
	r.file = nil
	if err == nil {
		err = os.Rename(r.name+partSuffix, r.name)
	}
	if err != nil {
		return fmt.Errorf("--record: %w", err)
	}
	return nil
}

// gapList writes the missing messages to a file, with one range FIRST-LAST in each line. A nil
// gapList writes nothing.
type gapList struct {
	file *os.File
	buf  *bufio.Writer
	name string
	err  error
}

func newGapList(name string) (*gapList, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // A nil list does nothing.
	}
	f, err := os.Create(name + partSuffix)
	if err != nil {
		return nil, fmt.Errorf("--missing: %w", err)
	}
	return &gapList{file: f, buf: bufio.NewWriter(f), name: name}, nil
}

// add adds a range of missing messages. The goroutine of the port calls add, which must not be
// called after the end of the stream.
func (g *gapList) add(first, last uint64) {
	if g == nil || g.err != nil {
		return
	}
	_, g.err = fmt.Fprintf(g.buf, "%d-%d\n", first, last)
}

// close completes the file, and renames it to its final name.
func (g *gapList) close() error {
	if g == nil {
		return nil
	}
	err := errors.Join(g.err, g.buf.Flush(), g.file.Sync(), g.file.Close())
	if err == nil {
		err = os.Rename(g.name+partSuffix, g.name)
	}
	if err != nil {
		return fmt.Errorf("--missing: %w", err)
	}
	return nil
}
