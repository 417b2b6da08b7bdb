package pair

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"gobtl/btl"
	"gobtl/stream"
)

// The constants are the shape of the rings.
const (
	ringRegions = 8
	regionBytes = 1 << 20
)

func openPort(o Options) (*stream.Port, error) {
	info, err := network()
	if err != nil {
		return nil, err
	}
	cfg := stream.PortConfig{
		Transport: btl.Config{MTUBytes: o.MTUBytes}, DatagramBytes: o.MTUBytes,
	}
	switch o.Wait.String() {
	case "busy":
		cfg.Spin = math.MaxInt64
	case "event":
		cfg.Spin = -1
	}
	return stream.Open(info, cfg)
}

func newRing(size int) (*stream.Ring, error) {
	return stream.NewRing(stream.Geometry{
		MessageBytes: size, Regions: ringRegions, RegionMessages: max(1, regionBytes/size),
	})
}

// config returns the configuration of both ends of a stream.
func (o *Options) config() (cfg stream.Config, size int, err error) {
	if len(o.Tests) != 1 || len(o.Sizes) != 1 {
		return cfg, 0, errors.New("a stream has one test and one size")
	}
	switch o.Tests[0] {
	case bw:
	case datagrams:
		cfg.Mode = stream.Unreliable
	default:
		return cfg, 0, errTest
	}
	return cfg, o.Sizes[0], nil
}

// serveStreams receives one stream.
func serveStreams(ctx context.Context, o Options, to io.Writer) error {
	cfg, size, err := o.config()
	if err != nil {
		return err
	}
	ring, err := newRing(size)
	if err != nil {
		return err
	}
	port, err := openPort(o)
	if err != nil {
		return errors.Join(err, ring.Close())
	}
	r, err := port.Receive(ring, cfg)
	if err == nil {
		go func() {
			for region := range r.Completed() {
				r.Release(region)
			}
		}()
		err = serving(ctx, to, r.Identity().String())
	}
	return errors.Join(err, closeAll(ctx, port.Close), ring.Close())
}

// streamSender is the client of a stream.
type streamSender struct {
	port *stream.Port
	ring *stream.Ring
	to   stream.Identity
}

func dialStreams(o Options, name string) (client, error) {
	to, err := stream.ParseIdentity(name)
	if err != nil {
		return nil, err
	}
	_, size, err := o.config()
	if err != nil {
		return nil, err
	}
	ring, err := newRing(size)
	if err != nil {
		return nil, err
	}
	port, err := openPort(o)
	if err != nil {
		return nil, errors.Join(err, ring.Close())
	}
	return &streamSender{port, ring, to}, nil
}

func (s *streamSender) close(ctx context.Context) error {
	return errors.Join(closeAll(ctx, s.port.Close), s.ring.Close())
}

func (s *streamSender) measure(ctx context.Context, o Options, _ string, _ int) (
	rate, same float64, err error,
) {
	cfg, _, err := o.config()
	if err != nil {
		return 0, 0, err
	}
	tx, err := s.port.Send(s.ring, cfg)
	if err != nil {
		return 0, 0, err
	}
	if err := s.port.Connect(tx, s.to); err != nil {
		return 0, 0, err
	}
	select {
	case <-tx.Started():
	case <-tx.Done():
	case <-ctx.Done():
	}
	for until := time.Now().Add(o.Duration); time.Now().Before(until); {
		region, err := tx.Next(ctx)
		if err != nil {
			return 0, 0, err
		}
		if err := tx.Populate(region.Messages); err != nil {
			return 0, 0, err
		}
	}
	tx.Finish()
	if err := tx.Wait(ctx); err != nil {
		return 0, 0, err
	}
	reports := tx.Reports()
	if len(reports) != 1 {
		return 0, 0, fmt.Errorf("%d reports of receivers, want 1", len(reports))
	}
	got := &reports[0]
	if cfg.Mode == stream.Unreliable {
		rate = float64(got.Received) / got.Seconds()
	} else {
		rate = got.MegabytesPerSecond()
	}
	return rate, rate, nil
}
