package mem

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"gobtl/fabric"
)

// ProviderName is the Info.Provider of the networks of this package.
const ProviderName = "mem/local"

const (
	family     = "mem"
	domainName = "local"

	nameBytes  = 8
	namePrefix = "mem:"

	defaultMTUBytes       = 1472
	defaultInjectBytes    = 1024
	defaultDepth          = 1024
	defaultQueueDatagrams = 1024

	maxMTUBytes       = 1 << 20
	maxDepth          = 1 << 20
	maxQueueDatagrams = 1 << 20
	maxQueueBytes     = 1 << 30
	maxEndpoints      = 1 << 24 // limit of the tables whose index is an endpoint's number
)

// Config sets the sizes of a Network and of its endpoints. For a field with the zero value, New
// uses the default that the field's comment states.
type Config struct {
	// MTUBytes is the size of the largest datagram, 1 to 1 MiB. The default of MTUBytes is 1472,
	// which is the largest UDP datagram on Ethernet.
	MTUBytes int
	// InjectBytes is the size of the largest send that has no Completion, at most MTUBytes. The
	// default of InjectBytes is 1024 or MTUBytes, whichever is lower. If InjectBytes is negative,
	// every non-empty send yields a Completion.
	InjectBytes int
	// TxDepth and RxDepth, from 1 to 2^20, are the queue depths of an endpoint whose EndpointConfig
	// does not set them. The default of TxDepth and RxDepth is 1024.
	TxDepth, RxDepth int
	// QueueDatagrams, from 1 to 2^20, is the number of datagrams that an endpoint's receive queue can
	// hold. The memory of a receive queue (QueueDatagrams times MTUBytes) must not exceed 1 GiB. A
	// full receive queue drops datagrams. The default of QueueDatagrams is 1024.
	QueueDatagrams int
	// If NoGather is true, Caps.Gather is false, so that a test can check that a caller works without
	// Caps.Gather.
	NoGather bool
	// If FreeRegions is true and NoGather is false, Caps.FreeRegions is true.
	FreeRegions bool
	// If NoLanding is true, Caps.Landing is false, so that a test can check that a caller works
	// without fabric.Lander.
	NoLanding bool
}

func (c Config) withDefaults() Config {
	if c.MTUBytes == 0 {
		c.MTUBytes = defaultMTUBytes
	}
	if c.InjectBytes == 0 {
		c.InjectBytes = min(defaultInjectBytes, c.MTUBytes)
	}
	c.InjectBytes = max(c.InjectBytes, 0)
	if c.TxDepth == 0 {
		c.TxDepth = defaultDepth
	}
	if c.RxDepth == 0 {
		c.RxDepth = defaultDepth
	}
	if c.QueueDatagrams == 0 {
		c.QueueDatagrams = defaultQueueDatagrams
	}
	return c
}

// Validate returns an error for the first field that is out of its range. The error of Validate
// wraps fabric.ErrBadConfig.
func (c Config) Validate() error {
	c = c.withDefaults()
	for _, f := range []struct {
		name      string
		value, hi int
	}{
		{"MTUBytes", c.MTUBytes, maxMTUBytes},
		{"TxDepth", c.TxDepth, maxDepth},
		{"RxDepth", c.RxDepth, maxDepth},
		{"QueueDatagrams", c.QueueDatagrams, maxQueueDatagrams},
	} {
		if f.value < 1 || f.value > f.hi {
			return badConfig("%s is %d, want 1 to %d", f.name, f.value, f.hi)
		}
	}
	if c.InjectBytes > c.MTUBytes {
		return badConfig("InjectBytes is %d, more than MTUBytes %d", c.InjectBytes, c.MTUBytes)
	}
	if c.QueueDatagrams > maxQueueBytes/c.MTUBytes {
		return badConfig("a queue of %d datagrams of %d bytes is more than %d bytes",
			c.QueueDatagrams, c.MTUBytes, maxQueueBytes)
	}
	return nil
}

func badConfig(format string, args ...any) error {
	return fmt.Errorf("%w: mem: %s", fabric.ErrBadConfig, fmt.Sprintf(format, args...))
}

// Counts are the counters of the datagrams of a Network. While no call of Post or Release is in
// progress, Sent + Duplicated equals Delivered + Overflowed + Unreachable + Filtered + the result
// of Held.
type Counts struct {
	Sent        uint64 // datagrams taken by Post
	Delivered   uint64 // put into a receiver's queue
	Overflowed  uint64 // dropped because that queue was full
	Unreachable uint64 // dropped because the receiver is closed
	Filtered    uint64 // dropped by the filter
	Duplicated  uint64 // additional copies made by the filter
}

// Network is a set of endpoints that can send datagrams to each other. The methods of Network are
// safe for concurrent use.
type Network struct {
	cfg    Config
	cfgErr error
	filter atomic.Pointer[Filter]

	sent, delivered, overflowed, unreachable, filtered, duplicated atomic.Uint64

	mu         sync.Mutex
	lastNumber uint32            // of an endpoint; 0 is none
	lastDomain uint32            // 0 is none
	inboxes    map[uint32]*inbox // open endpoints by number
	held       []heldDatagram
}

// New returns a new network. If the argument "cfg" is invalid, every call of Network.Open returns
// the error of Config.Validate.
func New(cfg Config) *Network {
	return &Network{
		cfg:     cfg.withDefaults(),
		cfgErr:  cfg.Validate(),
		inboxes: make(map[uint32]*inbox),
	}
}

// Counts returns the network's counters. Each counter by itself is exact. The equation in the
// comment of the type Counts holds only if no Post or Release is in progress during the call of
// Counts.
func (nw *Network) Counts() Counts {
	return Counts{
		Sent:        nw.sent.Load(),
		Delivered:   nw.delivered.Load(),
		Overflowed:  nw.overflowed.Load(),
		Unreachable: nw.unreachable.Load(),
		Filtered:    nw.filtered.Load(),
		Duplicated:  nw.duplicated.Load(),
	}
}

// Open opens a Domain on the network. The errors of Open wrap fabric.ErrBadConfig.
func (nw *Network) Open(cfg fabric.DomainConfig) (fabric.Domain, error) {
	if nw.cfgErr != nil {
		return nil, nw.cfgErr
	}
	nw.mu.Lock()
	nw.lastDomain++
	id := nw.lastDomain
	nw.mu.Unlock()
	return newDomain(nw, id, cfg)
}

// The method "attach" adds the receive queue of a new endpoint to the network, and returns the
// number of the endpoint.
func (nw *Network) attach(in *inbox) (uint32, error) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	if nw.lastNumber == maxEndpoints {
		return 0, badConfig("this network has opened its %d endpoints", maxEndpoints)
	}
	nw.lastNumber++
	nw.inboxes[nw.lastNumber] = in
	return nw.lastNumber, nil
}

func (nw *Network) detach(number uint32) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	delete(nw.inboxes, number)
}

// The method "resolve" returns the number and the receive queue of the endpoint with the given
// name. If the endpoint has been closed, the method "resolve" returns a nil queue and no error. A
// datagram to a closed endpoint is lost, like a datagram to a host that is down.
func (nw *Network) resolve(name []byte) (number uint32, in *inbox, err error) {
	if len(name) != nameBytes || string(name[:len(namePrefix)]) != namePrefix {
		return 0, nil, fmt.Errorf("%w: mem: %d bytes, want %d starting with %q",
			fabric.ErrBadName, len(name), nameBytes, namePrefix)
	}
	number = binary.BigEndian.Uint32(name[len(namePrefix):])
	nw.mu.Lock()
	defer nw.mu.Unlock()
	if number == 0 || number > nw.lastNumber {
		return 0, nil, fmt.Errorf("%w: mem: endpoint %d was never opened on this network",
			fabric.ErrBadName, number)
	}
	return number, nw.inboxes[number], nil
}

func makeName(number uint32) (name [nameBytes]byte) {
	copy(name[:], namePrefix)
	binary.BigEndian.PutUint32(name[len(namePrefix):], number)
	return name
}
