//go:build !linux

package tap

import (
	"errors"
	"net"

	"gobtl/vnic/offload"
)

// ErrDevice is the error of Open on this system, because TAP devices exist only on Linux.
var ErrDevice = errors.New("tap: TAP devices need Linux")

// ErrGone and ErrMoved are returned only on Linux.
var (
	ErrGone  = errors.New("tap: the interface has been removed")
	ErrMoved = errors.New("tap: the interface is in another network namespace")
)

// QueuesMax is the maximum number of queues of a device.
const QueuesMax = 8

// Config selects the device to open.
type Config struct {
	Name      string
	Queues    int
	NoOffload bool
	FDs       []int
}

// Device is an open TAP device. On this system no Device can be opened.
type Device struct{}

// Queue is a queue of a device.
type Queue struct{}

// Link is the state of a device in the kernel.
type Link struct {
	Up         bool
	MTU        int
	MAC        net.HardwareAddr
	Unicast    []net.HardwareAddr
	Multicast  []net.HardwareAddr
	GSOMaxSize uint32
}

// Open always returns ErrDevice.
func Open(Config) (*Device, error) { return nil, ErrDevice }

// The methods below have the signatures of the methods on Linux.

func (*Device) Name() string                  { return "" }
func (*Device) Queues() []*Queue              { return nil }
func (*Device) Headed() bool                  { return false }
func (*Device) LargeTCP() bool                { return false }
func (*Device) LargeUDP() bool                { return false }
func (*Device) Given() bool                   { return false }
func (*Device) SetCarrier(bool) error         { return ErrDevice }
func (*Device) SetMTU(int) error              { return ErrDevice }
func (*Device) SetMAC(net.HardwareAddr) error { return ErrDevice }
func (*Device) SetLargest(int) error          { return ErrDevice }
func (*Device) SetDormant(bool) error         { return ErrDevice }
func (*Device) Link() (Link, error)           { return Link{}, ErrDevice }
func (*Device) Check() error                  { return ErrDevice }
func (*Device) Close()                        {}
func (*Queue) FD() int                        { return -1 }
func (*Queue) Write(*offload.Joined) error    { return ErrDevice }

func (*Queue) Read([]byte) (offload.Header, int, error) { return offload.Header{}, 0, ErrDevice }

// Twin returns nil on this system.
func (*Queue) Twin() *Queue { return nil }
