//go:build linux

package netns

import (
	"runtime"
	"sync/atomic"
	"testing"

	"gobtl/fabric"
	"gobtl/fabric/udp"
)

// bouncer is one side of a ping-pong of 8 bytes.
type bouncer struct {
	dom  fabric.Domain
	ep   fabric.Endpoint
	send [1]fabric.Send
	out  [16]fabric.Completion
	buf  [1]fabric.Buf
}

func newBouncer(b *testing.B, p Port) *bouncer {
	x := new(bouncer)
	var err error
	p.Host.Do(func() {
		provider := udp.New(udp.Options{})
		infos, e := provider.GetInfo(fabric.Hints{Node: p.V4.String()})
		if e != nil || len(infos) == 0 {
			b.Fatalf("GetInfo: %d infos, %v", len(infos), e)
		}
		if x.dom, err = provider.Open(infos[0], fabric.DomainConfig{Buffers: 64}); err == nil {
			x.ep, err = x.dom.OpenEndpoint(fabric.EndpointConfig{})
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { x.dom.Close() })
	for buf := range fabric.Buf(32) {
		x.buf[0] = buf + 1
		if _, err := x.ep.Recv(x.buf[:]); err != nil {
			b.Fatal(err)
		}
	}
	return x
}

func (x *bouncer) poll() bool {
	n, _ := x.ep.Poll(x.out[:])
	for i := range x.out[:n] {
		x.buf[0] = x.out[i].Buf
		_, _ = x.ep.Recv(x.buf[:])
	}
	return n > 0
}

// BenchmarkHalfRoundTrip bounces 8 bytes between two hosts on a cable; over the loopback interface
// it is in fabric/udp.
func BenchmarkHalfRoundTrip(b *testing.B) {
	lab := New(b)
	pa, pb := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
	halfRoundTrip(b, newBouncer(b, pa), newBouncer(b, pb))
}

func halfRoundTrip(b *testing.B, near, far *bouncer) {
	for _, x := range [][2]*bouncer{{near, far}, {far, near}} {
		to, err := x[0].dom.Insert(x[1].ep.Name())
		if err != nil {
			b.Fatal(err)
		}
		x[0].send[0] = fabric.Send{To: to, Len: 8}
	}
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for !stop.Load() {
			if far.poll() {
				_, _ = far.ep.Post(far.send[:])
			}
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for b.Loop() {
		_, _ = near.ep.Post(near.send[:])
		for !near.poll() {
		}
	}
	b.StopTimer()
	stop.Store(true)
	<-done
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2, "ns/half")
}
