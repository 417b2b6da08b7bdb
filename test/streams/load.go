package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"
)

// The constants below are the first byte of a stream, which selects what the server does.
const (
	modeEcho   = 'e' // answers 8 bytes with 8
	modeBurst  = 'b' // answers burst writes of 8 bytes with 8
	modeSink   = 's' // reads blocks of blockBytes, and answers the last one
	modeMemory = 'm' // answers with the memory that the process has in use, then waits for the end
)

const (
	smallBytes = 8
	burst      = 64 // small writes, of which the last one is answered
	blockBytes = 1 << 20
	readBytes  = 128 << 10
)

// load describes what a client does, and the measured results.
type load struct {
	name, title, unit string
	up                bool // more is better
	run               func(ctx context.Context, d dialer, each time.Duration) (result, error)
}

// result is a measured value, with a second value for some loads.
type result struct {
	Value  float64 `json:"value"`
	Spread float64 `json:"spread"` // of busy: the slowest stream by the fastest
}

var loads = []*load{
	{"trip", "8 B there and back", "us", false, roundTrip},
	{"bulk", "1 MiB writes", "MB/s", true, bulk},
	{"small", "63 writes of 8 B, then one answered", "k writes/s", true, small},
	{"busy", "64 KiB writes on 100 streams", "MB/s", true, busy},
	{"idle", "1000 idle streams, memory of one, both sides", "B", false, idle},
}

// start opens a stream with a mode.
func start(ctx context.Context, d dialer, mode byte) (net.Conn, error) {
	c, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	_, err = c.Write([]byte{mode})
	return c, err
}

// exchange writes count small messages, and waits for the reply to the last one.
func exchange(c net.Conn, count int) error {
	var b, answer [smallBytes]byte
	for i := range count {
		b[0] = byte(i)
		if _, err := c.Write(b[:]); err != nil {
			return err
		}
	}
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return err
	}
	if answer != b {
		return fmt.Errorf("%x is answered with %x", b, answer)
	}
	return nil
}

// exchanges measures the median duration of an exchange.
func exchanges(ctx context.Context, d dialer, mode byte, count int, each time.Duration,
) (time.Duration, error) {
	c, err := start(ctx, d, mode)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	var took []time.Duration
	warm := time.Now().Add(each / 5)
	until := warm.Add(each)
	for begin := time.Now(); begin.Before(until) || len(took) == 0; {
		if err := exchange(c, count); err != nil {
			return 0, err
		}
		now := time.Now()
		if begin.After(warm) {
			took = append(took, now.Sub(begin))
		}
		begin = now
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

func roundTrip(ctx context.Context, d dialer, each time.Duration) (result, error) {
	took, err := exchanges(ctx, d, modeEcho, 1, each)
	return result{Value: float64(took) / 1e3}, err
}

func small(ctx context.Context, d dialer, each time.Duration) (result, error) {
	took, err := exchanges(ctx, d, modeBurst, burst, each)
	return result{Value: burst / took.Seconds() / 1e3}, err
}

// pour writes blocks until the time is over, and returns the number of bytes that have arrived.
func pour(c net.Conn, writeBytes int, until time.Time) (sum int64, err error) {
	block := make([]byte, blockBytes)
	for last := false; !last; sum += blockBytes {
		if last = !time.Now().Before(until); last {
			block[0] = 1
		}
		for part := range slices.Chunk(block, writeBytes) {
			if _, err := c.Write(part); err != nil {
				return 0, err
			}
		}
	}
	var answer [8]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return 0, err
	}
	if got := int64(binary.LittleEndian.Uint64(answer[:])); got != sum {
		return 0, fmt.Errorf("%d of %d bytes have arrived", got, sum)
	}
	return sum, nil
}

func bulk(ctx context.Context, d dialer, each time.Duration) (result, error) {
	var rate float64
	for _, lasts := range []time.Duration{each / 5, each} { // the first one warms up
		c, err := start(ctx, d, modeSink)
		if err != nil {
			return result{}, err
		}
		begin := time.Now()
		sum, err := pour(c, blockBytes, begin.Add(lasts))
		if err != nil {
			return result{}, err
		}
		rate = float64(sum) / 1e6 / time.Since(begin).Seconds()
		c.Close()
	}
	return result{Value: rate}, nil
}

// busy writes to many streams at the same time. No stream writes before all streams are open,
// because the rates of streams that begin at different times cannot be compared.
func busy(ctx context.Context, d dialer, each time.Duration) (result, error) {
	const count, writeBytes = 100, 64 << 10
	var (
		rates [count]float64
		errs  [count]error
		all   sync.WaitGroup
		sum   float64
	)
	var streams [count]net.Conn
	for i := range count {
		c, err := start(ctx, d, modeSink)
		if err != nil {
			return result{}, err
		}
		defer c.Close()
		streams[i] = c
	}
	begin := time.Now()
	for i, c := range streams {
		all.Go(func() {
			n, err := pour(c, writeBytes, begin.Add(2*each))
			rates[i], errs[i] = float64(n), err
		})
	}
	all.Wait()
	took := time.Since(begin)
	for _, r := range rates {
		sum += r
	}
	return result{
		Value:  sum / 1e6 / took.Seconds(),
		Spread: slices.Min(rates[:]) / slices.Max(rates[:]),
	}, errors.Join(errs[:]...)
}

// inUse is the memory of the heap and of goroutine stacks that this process uses.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what a sync.Pool held is gone with the second one
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// idle measures the memory of a stream over which one byte was sent in each direction.
func idle(ctx context.Context, d dialer, _ time.Duration) (result, error) {
	const count = 1000
	ask := func() (float64, error) {
		c, err := start(ctx, d, modeMemory)
		if err != nil {
			return 0, err
		}
		defer c.Close()
		var there [8]byte
		_, err = io.ReadFull(c, there[:])
		return float64(binary.LittleEndian.Uint64(there[:]) + inUse()), err
	}
	before, err := ask()
	if err != nil {
		return result{}, err
	}
	var held [count]net.Conn
	for i := range held {
		if held[i], err = start(ctx, d, modeEcho); err != nil {
			return result{}, err
		}
		if err := exchange(held[i], 1); err != nil {
			return result{}, err
		}
	}
	after, err := ask()
	for _, c := range held {
		c.Close()
	}
	return result{Value: (after - before) / count}, err
}

// serve does what the first byte of a stream selects.
func serve(c net.Conn) error {
	defer c.Close()
	var mode [1]byte
	if _, err := io.ReadFull(c, mode[:]); err != nil {
		return err
	}
	switch mode[0] {
	case modeEcho:
		return answer(c, 1)
	case modeBurst:
		return answer(c, burst)
	case modeSink:
		return sink(c)
	case modeMemory:
		_, err := c.Write(binary.LittleEndian.AppendUint64(nil, inUse()))
		if err == nil {
			_, err = io.Copy(io.Discard, c)
		}
		return err
	}
	return fmt.Errorf("no mode %q", mode)
}

// answer sends the last message back each time that count small messages have arrived.
func answer(c net.Conn, count int) error {
	b := make([]byte, count*smallBytes)
	for {
		if _, err := io.ReadFull(c, b); err != nil {
			return err
		}
		if _, err := c.Write(b[len(b)-smallBytes:]); err != nil {
			return err
		}
	}
}

// sink reads blocks until a block says that it is the last one.
func sink(c net.Conn) error {
	b := make([]byte, readBytes)
	var sum int64
	for last := false; !last || sum%blockBytes != 0; {
		n, err := c.Read(b)
		if err != nil {
			return err
		}
		if begin := -sum & (blockBytes - 1); begin < int64(n) { // the beginning of a block
			last = bytes.Equal(b[begin:begin+1], []byte{1})
		}
		sum += int64(n)
	}
	_, err := c.Write(binary.LittleEndian.AppendUint64(nil, uint64(sum)))
	if err == nil {
		_, err = io.Copy(io.Discard, c) // until the client has read it
	}
	return err
}
