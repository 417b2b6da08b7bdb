package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"gobtl/fabric"
	"gobtl/fabric/impair"
	"gobtl/internal/bounded"
	"gobtl/stream"
)

// session is one run of the program, with its rings, its port and its sampler.
type session struct {
	env      *environment
	c        *cli
	rings    []*stream.Ring
	meeting  *stream.Meeting
	met      net.Addr // local address to which the first peer connected, if known
	port     *stream.Port
	impaired *impair.Domain
	sampler  *sampler
	samples  chan measured // samples from the port's goroutine
	unseen   atomic.Uint64 // samples that found no room in the channel
	taken    takenPeers
	strange  bounded.Rate // limits the lines about refused peers
	// meant holds the counters of --impair when the streams began, so that earlier faults are not
	// reported.
	meant impair.Counts
}

// transfer sends or receives, as the options say.
func transfer(env *environment, c *cli) (err error) {
	s := &session{env: env, c: c}
	s.note()
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.makeRings(); err != nil {
		return err
	}
	if !c.Send {
		if err := s.tryFiles(); err != nil {
			return err
		}
	}
	if err := s.findPlace(); err != nil {
		return err
	}
	if c.Listen != "" {
		if s.meeting, err = stream.Listen(c.Listen); err != nil {
			return err
		}
		if s.met == nil { // else findGuest has logged the address
			env.logf(logNotice, "listening on %v", s.meeting.Addr())
		}
	}
	if err := s.openPort(); err != nil {
		return err
	}
	if c.Send {
		return s.send()
	}
	return s.receive()
}

// note logs the options that have no effect.
func (s *session) note() {
	if s.c.GID != -1 {
		s.env.logf(logNotice, "-g %d does nothing: there are no GIDs here; choose with --node", s.c.GID)
	}
	if s.c.Port == 1 {
		s.c.Port = 0
	}
}

// makeRings makes a ring for each stream.
func (s *session) makeRings() error {
	if err := s.checkMemory(); err != nil {
		return err
	}
	for range s.c.Streams {
		r, err := s.makeRing(s.c.geometry())
		if err != nil {
			return err
		}
		s.rings = append(s.rings, r)
	}
	return nil
}

func (s *session) makeRing(g stream.Geometry) (*stream.Ring, error) {
	if s.c.Ring != "" {
		return stream.CreateRing(s.c.Ring, g)
	}
	mem, err := ringMemory(g.Bytes(), s.c.Huge)
	if err != nil {
		return nil, fmt.Errorf("-m %d -b %d -c %d: memory of %d bytes for the ring: %w", g.MessageBytes,
			g.Regions, g.RegionMessages, g.Bytes(), err)
	}
	return stream.NewRing(g, mem)
}

// openPort finds the network, and opens a port on it.
func (s *session) openPort() error {
	info, err := s.findNetwork()
	if err != nil {
		return err
	}
	s.env.logf(logInfo, "network: %s, device %s, address %s", info.Provider, info.Domain, info.Src)
	cfg := stream.PortConfig{
		Timeout: s.c.Timeout, ReliableOnly: s.c.Mode == stream.Reliable,
		DatagramBytes: int(s.c.Datagram), OpenData: s.openData,
	}
	if s.c.CPU >= 0 {
		cfg.Setup = func() error {
			if err := pinThread(s.c.CPU); err != nil {
				return fmt.Errorf("--cpu %d: %w", s.c.CPU, err)
			}
			return nil
		}
	}
	s.port, err = stream.Open(info, cfg)
	return err
}

// openData opens the fabric domain for the datagrams of the stream. The domain uses the UDP port of
// the option -p, and drops or changes packets as the option --impair says.
func (s *session) openData(
	info fabric.Info, cfg fabric.DomainConfig,
) (fabric.Domain, error) {
	if s.c.Port != 0 {
		host := info.Src
		if host == "" {
			return nil, fmt.Errorf("-p: %s has no ports", info.Provider)
		}
		info.Node = net.JoinHostPort(host, strconv.Itoa(s.c.Port))
	}
	if s.c.Impair == "" {
		return fabric.Open(info, cfg)
	}
	d, err := impair.Open(info, cfg, s.c.faults)
	s.impaired = d
	return d, err
}

// findNetwork chooses the network by the options -r and --node, or by the address at which the
// peers connect.
func (s *session) findNetwork() (fabric.Info, error) {
	hints := fabric.Hints{Provider: fabric.Sockets(), Node: s.node()}
	device := s.c.Device
	switch { // other providers would load libfabric to be listed
	case device == "":
	case slices.Contains(fabric.Families(), fabric.FamilyOf(device)):
		hints.Provider = device
	default:
		hints.Domain = device
	}
	infos, err := fabric.GetInfo(hints)
	if err == nil && len(infos) == 0 && s.c.Node == "" {
		hints.Node = "" // the address is not of this provider or device
		infos, err = fabric.GetInfo(hints)
	}
	if err != nil && !errors.Is(err, fabric.ErrNoProvider) {
		return fabric.Info{}, err
	}
	if len(infos) == 0 {
		return fabric.Info{}, fmt.Errorf("no network for -r %q --node %q: see btlbench info",
			device, s.c.Node)
	}
	return infos[0], nil
}

// The method node returns the local address of the stream. Without --node, the local address
// follows from the address at which the peers connect.
func (s *session) node() string {
	if s.c.Node != "" {
		return s.c.Node
	}
	if s.met != nil {
		return hostOf(s.met)
	}
	if s.meeting != nil {
		if host := hostOf(s.meeting.Addr()); host != "" {
			return host
		}
	}
	if len(s.c.Connect) > 0 {
		// net.Dial sends no packet for UDP, but makes the kernel choose the local address.
		if conn, err := net.Dial("udp", s.c.Connect[0]); err == nil {
			defer conn.Close()
			if a, ok := conn.LocalAddr().(*net.UDPAddr); ok {
				return (&net.IPAddr{IP: a.IP, Zone: a.Zone}).String()
			}
		}
	}
	return ""
}

// exchange returns the way by which this side exchanges identities with one peer. The result of
// exchange is not used if this side listens, or if it connects to several peers.
func (s *session) exchange() stream.Exchange {
	switch {
	case s.c.Exchange != "":
		return stream.ExchangeFiles(s.c.Exchange)
	case s.meeting != nil:
		return s.meeting.Exchange
	case len(s.c.Connect) > 0:
		return stream.ExchangeAt(s.c.Connect[0])
	}
	if f, ok := s.env.stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.env.logf(logNotice, "identities are exchanged by hand here; see btlstream --help")
	}
	return stream.ExchangeStdIO(s.env.stdin, s.env.stdout)
}

// asksPerson reports whether a person carries the identities by hand.
func (s *session) asksPerson() bool {
	return s.c.Exchange == "" && s.meeting == nil && len(s.c.Connect) == 0
}

// meetingContext returns a context with the time limit for the exchange of identities.
func (s *session) meetingContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.env.ctx, s.c.Wait)
}

// The method refused logs a refused peer. The goroutine of the port calls refused.
func (s *session) refused(r stream.Refusal) {
	if errors.Is(r.Err, stream.ErrTaken) {
		s.taken.tell(r.Key)
		s.stranger(logInfo, "%s: %v", r.Peer, r.Err)
		return
	}
	s.stranger(logWarning, "refused, %s: %v", r.Peer, r.Err)
}

// stranger logs a line that any host can cause as often as it likes. The number of such lines in a
// second is bounded.
func (s *session) stranger(level int, format string, args ...any) {
	if level > s.env.level {
		return
	}
	if before, ok := s.strange.Allow(); ok {
		s.env.logf(level, "%s%s", before, fmt.Sprintf(format, args...))
	}
}

// takenPeers informs waiting senders that a receiver has accepted another sender.
type takenPeers struct {
	lock    sync.Mutex
	waiting map[uint64]chan struct{}
}

// awaitTaken returns a channel that is closed when the receiver with the given key has accepted
// another sender.
func (s *session) awaitTaken(key uint64) <-chan struct{} {
	t := &s.taken
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.waiting == nil {
		t.waiting = make(map[uint64]chan struct{})
	}
	ch := make(chan struct{})
	t.waiting[key] = ch
	return ch
}

func (t *takenPeers) tell(key uint64) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if ch := t.waiting[key]; ch != nil {
		close(ch)
		delete(t.waiting, key)
	}
}

// sampled makes the stream take samples of its counters, as the option -v says. Without a number of
// messages, the stream takes one sample after each use of all regions of the ring. The stream does
// not wait until a sample is shown.
func (s *session) sampled(cfg *stream.Config, index int) {
	c := s.c
	if c.Out == "" && c.Metrics == "" && c.Log < logInfo {
		return
	}
	if s.samples == nil {
		s.samples = make(chan measured, samplesMax)
	}
	if cfg.Every = c.Every; c.Every == 0 {
		cfg.Every = uint64(c.geometry().Messages())
	}
	cfg.Sample = func(st stream.Stats) {
		select {
		case s.samples <- measured{index, time.Now(), processCPU(), st}:
		default:
			s.unseen.Add(1)
		}
	}
}

// watch starts the sampler of the running streams.
func (s *session) watch(sources []source) error {
	var err error
	s.sampler, err = newSampler(s.env, s.c, s.port, sources, s.samples)
	return err
}

// showRings displays the memory of all rings.
func (s *session) showRings() error {
	const regionsMax = 64
	if !s.c.Display || s.c.Format == formatJSON || s.c.Regions > regionsMax {
		return nil
	}
	n := displayBytes(s.env.stdout)
	for _, r := range s.rings {
		if err := r.Display(s.env.stdout, n, n); err != nil {
			return err
		}
	}
	return nil
}

// displayBytes returns how many bytes of the beginning, and of the end, of a region fit into one
// line. The result of displayBytes is 10, or less on a narrow terminal.
func displayBytes(out io.Writer) int {
	const most, least, beside, each = 10, 1, len("Memory region 0000:  ..."), 2 * len(" 00")
	f, ok := out.(*os.File)
	if !ok {
		return most
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width == 0 { // no terminal
		return most
	}
	return min(most, max(least, (width-beside)/each))
}

// close releases all resources of the session.
func (s *session) close() error {
	var err error
	if s.meeting != nil {
		err = s.meeting.Close()
	}
	if s.port != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err = errors.Join(err, s.port.Close(ctx))
	}
	if rest := s.strange.Rest(); rest != "" {
		s.env.logf(logWarning, "refused: %s", rest)
	}
	for _, r := range s.rings {
		err = errors.Join(err, r.Close())
	}
	return err
}
