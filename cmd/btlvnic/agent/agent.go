//go:build linux

package agent

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/impair"
	"gobtl/internal/bounded"
	"gobtl/internal/mono"
	"gobtl/vnic"
	"gobtl/vnic/tap"
)

// Config is the configuration of an agent.
type Config struct {
	Host     string   // this host's name in the manager's file
	Manager  string   // the manager's name
	Managers []string // HOST:PORT of the manager; several are alternatives
	Fabric   fabric.Info
	Queues   int // queues per device, and endpoints per direction: 1 to vnic.LanesMax; 0: 1
	// Device is the pattern for the names of the interfaces, where "%d" stands for the number of
	// the port. An empty Device means "vnic%d".
	Device string
	// FDs holds descriptors of devices that another process has opened, by port.
	FDs map[uint8][]int
	// Kept holds the open devices of an earlier Agent by port (see Agent.Kept). The new Agent owns
	// these devices if New succeeds.
	Kept      map[uint8]*tap.Device
	NoOffload bool
	// Impair injects faults into received packets, for tests. A nil Impair injects no faults.
	Impair *impair.Faults
	// Log is called with a sentence for each event, by any goroutine.
	Log func(format string, args ...any)
}

// Agent is a running agent. Any goroutine may call the methods of an Agent.
type Agent struct {
	cfg      Config
	instance uint64
	module   *btl.Module
	station  *vnic.Station
	core     *vnic.Agent

	receivers []*receiver
	senders   []*sender
	local     struct { // receiver of trains, on the control thread
		mu sync.Mutex
		intake
	}
	ports  [vnic.VportMax + 1]*port
	peers  atomic.Pointer[peers]
	failed chan error // error of a thread

	trains     chan *train
	trainsLost atomic.Uint64
	flying     int // trains that the module is sending
	mates      map[uint32]*peer
	byEnd      map[*btl.Endpoint]*peer
	ordered    OrderReport // counts of peers that are gone
	waits      vnic.OrderRoom

	ops      chan func()
	sleeping atomic.Bool
	stopped  chan struct{}
	probes   probes

	challenges chan challenge // datagrams by which a manager verifies the addresses of this host
	proving    atomic.Bool    // datagrams of a manager's address check are expected

	paths   map[uint32]*vnic.PathSearch // to the hosts with which ports exchange datagrams, by LID
	pathsAt mono.Time                   // time of the next probes
	sized   chan sizeProbe              // received size probes and answers
	doubted atomic.Bool                 // see doubt
	doubtAt mono.Time                   // earliest time of probes because of "doubted"
	stuckAt mono.Time                   // earliest time of probes because of "stuck"
	asks    []vnic.SizeProbe            // memory of the method measure

	silent         atomic.Pointer[map[uint32]bool] // hosts that answer no probes, by LID; nil: none
	stuck          atomic.Pointer[map[uint32]bool] // LIDs of hosts for a look (see stick), or nil
	silenceChanged bool                            // "silent" does not have the latest changes
	rareAsks       hostRate                        // guarded by the lock of the first sender
	rareTells      hostRate                        // likewise
	strangers      vnic.Counts                     // trains that no port gets; each counts once

	lookAt, dialAt mono.Time
	kept           map[uint8]*tap.Device // open devices that no port uses
	refused        string                // the latest reason why the manager refuses this host
	untold         bool                  // the log does not have the latest reason
	// refusalLines and proofLines bound the log lines that a manager can cause.
	refusalLines, proofLines bounded.Rate
}

// The constants below are limits and times of the control thread.
const (
	opsWaiting = 256
	lookEvery  = time.Second
	parkMax    = time.Second
)

// moduleConfig returns the transport configuration of hosts and managers. The timeouts are short,
// so that the failure of a host or a manager is detected within some seconds.
func moduleConfig() btl.Config {
	return btl.Config{
		SendBuffers: 4096, FragmentsMax: fragmentsMax, RecvDepth: 1024,
		KeepAlive: time.Second, PeerTimeout: 3 * time.Second,
		FragmentBytesMax: vnic.TrainBytesMax, ReassemblyBytesMax: trainBytesMax,
	}
}

// OpenModule opens a module on a fabric, for management messages and for messages with all packets
// of one frame. The argument faults of OpenModule injects faults into received packets, where nil
// means no faults.
func OpenModule(info fabric.Info, faults *impair.Faults) (*btl.Module, error) {
	cfg := moduleConfig()
	dc, err := cfg.DomainConfig(info)
	if err != nil {
		return nil, err
	}
	dom, err := openDomain(info, dc, faults)
	if err != nil {
		return nil, at(info, err)
	}
	m, err := btl.Open(dom, cfg)
	if err != nil {
		_ = dom.Close()
	}
	return m, at(info, err)
}

// Random returns a random number that is not 0.
func Random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // Read never fails
	return max(binary.LittleEndian.Uint64(b[:]), 1)
}

// New opens the resources that the method Run of the new agent uses.
func New(cfg Config) (*Agent, error) {
	if cfg.Queues == 0 {
		cfg.Queues = 1
	}
	if cfg.Queues < 1 || cfg.Queues > vnic.LanesMax {
		return nil, fmt.Errorf("%d queues, want 1 to %d", cfg.Queues, vnic.LanesMax)
	}
	if cfg.Device == "" {
		cfg.Device = "vnic%d"
	}
	a := &Agent{
		cfg: cfg, instance: Random(), failed: make(chan error, 2*vnic.LanesMax),
		trains: make(chan *train, trainsWaiting), mates: make(map[uint32]*peer),
		byEnd: make(map[*btl.Endpoint]*peer), ops: make(chan func(), opsWaiting),
		stopped: make(chan struct{}), challenges: make(chan challenge, challengesWaiting),
		paths: make(map[uint32]*vnic.PathSearch), sized: make(chan sizeProbe, sizedWaiting),
	}
	a.peers.Store(&peers{})
	a.local.init(a)
	if err := a.open(); err != nil {
		a.close()
		return nil, err
	}
	a.kept = maps.Clone(cfg.Kept)
	return a, nil
}

func (a *Agent) open() error {
	ways := vnic.Ways{}
	info := a.cfg.Fabric
	bytes := min(info.MTUBytes, vnic.PacketBytesMax)
	for range a.cfg.Queues {
		in, err := openEndpoint(info, recvBuffers, bytes, a.cfg.Impair)
		if err != nil {
			return err
		}
		r, err := newReceiver(a, in)
		if err != nil {
			return errors.Join(err, in.dom.Close())
		}
		a.receivers = append(a.receivers, r)
		ways.Receive = append(ways.Receive, in.ep.Name())
		out, err := openEndpoint(info, sendBuffers, bytes, nil)
		if err != nil {
			return err
		}
		s, err := newSender(a, out)
		if err != nil {
			return errors.Join(err, out.dom.Close())
		}
		a.senders = append(a.senders, s)
		r.twin = s
		ways.Send = append(ways.Send, out.ep.Name())
	}
	var err error
	if a.module, err = OpenModule(info, a.cfg.Impair); err != nil {
		return err
	}
	if err := a.module.HandleUpTo(vnic.TagTrain, vnic.TrainBytesMax, a.takeTrain); err != nil {
		return err
	}
	ways.Module = a.module.Name()
	a.core = vnic.NewAgent(vnic.AgentConfig{
		Host: a.cfg.Host, Manager: a.cfg.Manager, Instance: a.instance, Ways: ways, Counts: a.counts,
	})
	a.station, err = vnic.NewAgentStation(a.module, a.core, a.mateEvent)
	return err
}

// close releases the resources of open and Run. When close is called, all threads of the agent must
// have ended.
func (a *Agent) close() {
	for _, p := range a.ports {
		if p != nil && p.dev != nil {
			p.dev.Close()
		}
	}
	CloseDevices(a.kept)
	for _, r := range a.receivers {
		_ = r.link.dom.Close()
	}
	for _, s := range a.senders {
		_ = s.link.dom.Close()
		s.bell.close()
	}
	if a.module != nil {
		_ = a.module.Close()
	}
}

// Run carries frames until ctx is done, and then removes the devices. Run returns an error if the
// fabric fails.
func (a *Agent) Run(ctx context.Context) error {
	var threads sync.WaitGroup
	spawn := func(run func() error) {
		threads.Go(func() {
			if err := run(); err != nil {
				a.failed <- err
				a.wake()
			}
		})
	}
	for _, r := range a.receivers {
		spawn(r.run)
	}
	for _, s := range a.senders {
		spawn(s.run)
	}
	inner, cancel := context.WithCancel(ctx)
	for _, addr := range a.cfg.Managers {
		threads.Go(func() { a.follow(inner, addr) })
	}
	threads.Go(func() { a.watchLinks(inner) })
	stop := context.AfterFunc(ctx, a.wake0)
	err := a.control(ctx)
	stop()
	cancel()
	close(a.stopped)
	for _, r := range a.receivers {
		r.end()
	}
	for _, s := range a.senders {
		s.end()
	}
	threads.Wait()
	var kept map[uint8]*tap.Device
	if errors.Is(err, ErrAddress) {
		kept = a.releaseDevices()
	}
	a.close()
	a.kept = kept
	return err
}

// ErrAddress means that this host has lost the address of the underlying network to which an Agent
// is bound.
var ErrAddress = errors.New("the address of the network below is gone")

// checkAddress returns ErrAddress if this host has lost the address to which all sockets are bound.
func (a *Agent) checkAddress() error {
	own, err := netip.ParseAddr(a.cfg.Fabric.Src)
	if err != nil {
		return nil //nolint:nilerr // the fabric has no IP addresses
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil //nolint:nilerr // the next check follows soon
	}
	for _, other := range all {
		p, err := netip.ParsePrefix(other.String())
		if err == nil && (p.Addr().Unmap() == own.WithZone("") || own.IsLoopback()) {
			return nil
		}
	}
	return fmt.Errorf("%w: %v", ErrAddress, own)
}

// releaseDevices returns the devices of all ports, and those of an earlier Agent that no port has
// used. The devices no longer belong to the Agent. The interfaces and their addresses remain while
// the devices are open. The kernel removes an interface when the last descriptor of its device is
// closed, as at the end of the process. Without a carrier on the interfaces, the kernel queues no
// frames in them.
func (a *Agent) releaseDevices() map[uint8]*tap.Device {
	kept := make(map[uint8]*tap.Device)
	for _, p := range a.ports {
		if p != nil && p.dev != nil {
			_ = p.dev.SetCarrier(false) // the interface may be gone
			kept[p.num], p.dev = p.dev, nil
		}
	}
	for num, dev := range a.kept {
		if kept[num] == nil {
			kept[num] = dev
		}
	}
	a.kept = nil
	return kept
}

// Kept returns the open devices by port, if the Agent's Run has ended with ErrAddress. The caller
// owns these devices: the next Agent gets them in Config.Kept, or CloseDevices closes them.
func (a *Agent) Kept() map[uint8]*tap.Device { return a.kept }

// CloseDevices closes devices. The kernel removes the interfaces that a device has created.
func CloseDevices(devices map[uint8]*tap.Device) {
	for _, dev := range devices {
		dev.Close()
	}
}

// The method control is the main loop of the control thread.
func (a *Agent) control(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case err := <-a.failed:
			return fmt.Errorf("the fabric fails: %w", err)
		default:
		}
		now := clock()
		n, err := a.station.Progress(now)
		if err != nil {
			return fmt.Errorf("the transport fails: %w", err)
		}
		n += a.prove() + a.sendTrains(now) + a.measure(now) + a.runOps()
		a.tellRefusal()
		if now >= a.lookAt {
			a.lookAt = now.Add(lookEvery)
			if err := a.checkAddress(); err != nil {
				return err
			}
			a.look(now)
			a.tellAgain()
		}
		a.applyChanges()
		if now >= a.dialAt {
			a.dialAt = now.Add(redialEvery)
			a.dial(now)
			a.findPaths(now)
		}
		next := a.expire(now)
		if n == 0 {
			if err := a.park(now, next); err != nil {
				return err
			}
		}
	}
	return nil
}

// park sleeps until the control thread may have work to do.
func (a *Agent) park(now, next mono.Time) error {
	a.sleeping.Store(true)
	defer a.sleeping.Store(false)
	d := a.rest(now, next)
	if d <= 0 || len(a.trains)+len(a.ops)+len(a.failed)+len(a.challenges)+len(a.sized) > 0 {
		return nil
	}
	return a.module.Wait(d)
}

// The method rest returns the time until the control thread has work to do. The field sleeping must
// be set: other threads that cause work during or after rest then wake the control thread.
func (a *Agent) rest(now, next mono.Time) time.Duration {
	next = next.Min(a.station.Deadline()).Min(a.lookAt).Min(a.dialAt).Min(a.pathsAt)
	if a.doubted.Load() {
		next = next.Min(a.doubtAt)
	}
	if a.stuck.Load() != nil {
		next = next.Min(a.stuckAt)
	}
	d := min(next.Sub(now), parkMax)
	for _, p := range a.mates {
		if p.full {
			d = min(d, time.Millisecond)
		}
	}
	return d
}

// wake ends the sleep of the control thread, and has no effect on a running thread.
func (a *Agent) wake() {
	if a.sleeping.Load() {
		a.module.Wake()
	}
}

// wake0 ends the sleep of the control thread, or prevents a sleep that is about to begin.
func (a *Agent) wake0() { a.module.Wake() }

// do runs fn on the control thread, and returns after fn has returned.
func (a *Agent) do(ctx context.Context, fn func()) error {
	done := make(chan struct{})
	select {
	case a.ops <- func() { fn(); close(done) }:
	case <-ctx.Done():
		return ctx.Err()
	case <-a.stopped:
		return btl.ErrClosed
	}
	a.wake()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-a.stopped:
		return btl.ErrClosed
	}
}

// The method later queues fn for the control thread, and drops fn if the queue is full. Any thread
// may call later.
func (a *Agent) later(fn func()) {
	select {
	case a.ops <- fn:
		a.wake()
	default:
	}
}

// runOps runs the queued requests of other threads. A request that arrives during runOps is run by
// the next call of runOps.
func (a *Agent) runOps() (n int) {
	for range opsWaiting {
		select {
		case fn := <-a.ops:
			fn()
			n++
		default:
			return n
		}
	}
	return n
}
