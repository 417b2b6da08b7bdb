//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// dumpWaiting is the maximum number of captured frames that wait to be written. Further frames are
// not captured, but counted.
const dumpWaiting = 4096

// dump passes copies of a port's frames to a client that captures frames.
type dump struct {
	frames chan dumped
	lost   atomic.Uint64
}

type dumped struct {
	at    time.Time
	bytes []byte
	out   bool
}

// capture copies a frame to the client. All threads of a port call capture.
func (d *dump) capture(f []byte, out bool) {
	select {
	case d.frames <- dumped{time.Now(), append([]byte(nil), f...), out}:
	default:
		d.lost.Add(1)
	}
}

// ErrDumping means that another client is already capturing the port.
var ErrDumping = errors.New("the port is being dumped already")

// Dump writes the frames of a port to w as pcapng until ctx is done. The dump shows frames from the
// fabric before they are joined into large frames, and large frames from the device before they are
// split.
func (a *Agent) Dump(ctx context.Context, vport uint8, w io.Writer, flush func()) error {
	var p *port
	if err := a.do(ctx, func() { p = a.ports[vport] }); err != nil {
		return err
	}
	if p == nil || p.dev == nil {
		return fmt.Errorf("there is no port %d", vport)
	}
	d := &dump{frames: make(chan dumped, dumpWaiting)}
	if !p.dump.CompareAndSwap(nil, d) {
		return ErrDumping
	}
	defer p.dump.Store(nil)
	face := pcapgo.NgInterface{
		Name: p.dev.Name(), LinkType: layers.LinkTypeEthernet, OS: "linux", SnapLength: frameRoom,
		TimestampResolution: 9, Description: "port of btlvnic",
	}
	ng, err := pcapgo.NewNgWriterInterface(w, face, pcapgo.NgWriterOptions{
		SectionInfo: pcapgo.NgSectionInfo{Application: "btlvnic"},
	})
	if err != nil {
		return err
	}
	for err == nil {
		if len(d.frames) == 0 {
			if err = ng.Flush(); err == nil {
				flush()
			}
		}
		select {
		case f := <-d.frames:
			err = ng.WritePacket(gopacket.CaptureInfo{
				Timestamp: f.at, CaptureLength: len(f.bytes), Length: len(f.bytes),
			}, f.bytes)
		case <-ctx.Done():
			return ng.Flush()
		case <-a.stopped:
			return ng.Flush()
		}
	}
	return err
}
