package conn

import (
	"errors"
	"fmt"

	"gobtl/btl"
)

// The errors below can be tested with errors.Is, and the methods of a Conn wrap them in a
// net.OpError.
var (
	// ErrConfig means that a configuration value is out of its range.
	ErrConfig = errors.New("conn: invalid configuration")
	// ErrService means that the peer has no Listener for the service, or that the service's name is
	// longer than 255 bytes.
	ErrService = errors.New("conn: no such service")
	// ErrBacklog means that, at every attempt of Dial, too many Conns were waiting for Accept at the
	// peer's Listener. The text of an ErrBacklog says how often and how long Dial has tried.
	ErrBacklog = errors.New("conn: backlog is full")
	// ErrConns means that the number of Conns with the peer has reached ConnsMax.
	ErrConns = errors.New("conn: too many connections with the peer")
	// ErrStopped means that the peer has called Close or CloseRead of its Conn, and will read no more
	// bytes.
	ErrStopped = errors.New("conn: the peer reads no more")
	// ErrReset means that the peer has closed the Conn, and has dropped unsent bytes because this side
	// did not read in time (see Conn.Close).
	ErrReset = errors.New("conn: the peer has dropped the end of the stream")
	// ErrInUse means that the service already has a Listener.
	ErrInUse = errors.New("conn: service in use")
)

// The method "err" converts the status with which the peer refuses a Conn to the error of Dial.
func (s status) err() error {
	switch s {
	case statusBacklog:
		return ErrBacklog
	case statusConns:
		return ErrConns
	case statusService:
	}
	return ErrService
}

// Config configures a Node. A field of this Config that is zero has its default value, except for
// Tag, whose value 0 means the tag 0.
type Config struct {
	// Tag is the module's tag for the Node, 0 to btl.TagMax. Both sides must use the same tag.
	Tag btl.Tag
	// WindowBytes is the initial window (the maximum number of unread bytes) of a Conn, 1 KiB to 16
	// MiB. A WindowBytes of 0 means 256 KiB. The two sides can use different values of WindowBytes.
	WindowBytes int
	// WindowBytesMax is the maximum size to which the window of a Conn grows, WindowBytes to 64 MiB. A
	// WindowBytesMax of 0 means 16 times WindowBytes, limited to TotalBytes if TotalBytes is set. The
	// window of a Conn grows if the sender has filled it and the application has read all received
	// bytes. While more than eight Conns of the Node transfer data, their windows do not grow, and
	// grown windows shrink. When the Node decides about the growth of a Conn's window, it does not
	// count Conns that transfer much less data than this Conn, and counts at most two Conns of each
	// other host.
	WindowBytesMax int
	// GrowthBytes is the maximum growth of the windows of all Conns together, at most 1<<40 bytes. A
	// GrowthBytes of 0 means 512 times WindowBytes. In one step, the window of a Conn can grow by at
	// most a quarter of the unused part of GrowthBytes. The windows of all Conns with one host
	// together can grow by about (GrowthBytes-n)/2 bytes if the windows of all other Conns have grown
	// by n bytes.
	GrowthBytes int64
	// ConnsMax limits both the number of Conns that one peer opens, and the number of Conns that this
	// side opens to one peer. The range of ConnsMax is 1 to 1<<20. A ConnsMax of 0 means 1024. An
	// ended Conn with unread bytes still counts towards ConnsMax.
	ConnsMax int
	// TotalConns is the maximum number of Conns that all peers together open, ConnsMax to 1<<26. A
	// TotalConns of 0 means 64 times ConnsMax. The peers on one host can open about (TotalConns-n)/2
	// Conns if the peers on all other hosts have opened n Conns.
	TotalConns int
	// Backlog is the maximum number of Conns of a Listener that wait for Accept, 1 to 1<<16. A Backlog
	// of 0 means 128. A backlog accepts about (Backlog-n)/2 Conns of one host if it contains n Conns
	// of all other hosts.
	Backlog int
	// GoneBytes is the maximum memory, at most 1<<40 bytes, for ended Conns with unread bytes, closed
	// Conns with unsent bytes, and Conns whose Dial failed before the peer answered. A GoneBytes of 0
	// means 64 times WindowBytes. A Conn counts towards GoneBytes as 4096 bytes plus the size of its
	// buffer. When GoneBytes is exceeded, the Node drops the buffered bytes of the oldest ended or
	// closed Conns of the host whose Conns count most towards GoneBytes. If the Node drops the unread
	// bytes of an ended Conn, Reads of this Conn return the error that has ended it. If the Node drops
	// the unsent bytes of a closed Conn, Reads at the peer return ErrReset.
	GoneBytes int64
	// TotalBytes is the maximum size of the receive buffers of all Conns that have not ended,
	// WindowBytesMax to 1<<40 bytes. A TotalBytes of 0 means 1024 times WindowBytes, but not less than
	// WindowBytesMax. The receive buffer of a Conn grows as bytes arrive, up to the size of the
	// window, and includes copies of bytes that arrive while earlier bytes are missing. When
	// TotalBytes is exceeded, the Node first frees the receive buffers without unread bytes. If the
	// remaining receive buffers still take more than seven eighths of TotalBytes, the Node aborts
	// endpoints until at most seven eighths are in use. The first endpoint to be aborted is the one
	// that uses the most memory on the host that uses the most memory. The application can still read
	// the bytes that an aborted Conn has received without a gap, unless the Node drops them because
	// GoneBytes is exceeded.
	TotalBytes int64
}

const (
	windowBytesMin = 1 << 10
	windowBytesMax = 16 << 20
	grownBytesMax  = 64 << 20
	windowFactor   = 16
	growthFactor   = 512
	growthBytesMax = 1 << 40
	connsMax       = 1 << 20
	connsFactor    = 64
	backlogMax     = 1 << 16
	goneBytesMax   = 1 << 40
	goneFactor     = 64
	totalFactor    = 1024
	totalBytesMax  = 1 << 40
	// goneBytes is the number of bytes that an ended Conn counts towards Config.GoneBytes, in addition
	// to the size of its buffer.
	goneBytes = 4096
)

func (c Config) withDefaults() Config {
	if c.WindowBytes == 0 {
		c.WindowBytes = 256 << 10
	}
	if c.WindowBytesMax == 0 {
		most := int64(min(windowFactor*c.WindowBytes, grownBytesMax))
		if c.TotalBytes > 0 {
			most = min(most, c.TotalBytes)
		}
		c.WindowBytesMax = max(c.WindowBytes, int(most))
	}
	if c.GrowthBytes == 0 {
		c.GrowthBytes = growthFactor * int64(c.WindowBytes)
	}
	if c.ConnsMax == 0 {
		c.ConnsMax = 1024
	}
	if c.TotalConns == 0 {
		c.TotalConns = connsFactor * min(c.ConnsMax, connsMax)
	}
	if c.Backlog == 0 {
		c.Backlog = 128
	}
	if c.GoneBytes == 0 {
		c.GoneBytes = goneFactor * int64(c.WindowBytes)
	}
	if c.TotalBytes == 0 {
		c.TotalBytes = max(totalFactor*int64(c.WindowBytes), int64(c.WindowBytesMax))
	}
	return c
}

// Validate returns ErrConfig for the first value that is out of range. Before Validate is called,
// all zero fields must have been replaced by their defaults.
func (c Config) Validate() error {
	for _, f := range [...]struct {
		name            string
		value, min, max int
	}{
		{"Tag", int(c.Tag), 0, int(btl.TagMax)},
		{"WindowBytes", c.WindowBytes, windowBytesMin, windowBytesMax},
		{"WindowBytesMax", c.WindowBytesMax, c.WindowBytes, grownBytesMax},
		{"ConnsMax", c.ConnsMax, 1, connsMax},
		{"TotalConns", c.TotalConns, c.ConnsMax, connsFactor * connsMax},
		{"Backlog", c.Backlog, 1, backlogMax},
	} {
		if f.value < f.min || f.value > f.max {
			return fmt.Errorf("%w: %s is %d, want %d to %d", ErrConfig, f.name, f.value, f.min, f.max)
		}
	}
	if c.GrowthBytes < 0 || c.GrowthBytes > growthBytesMax {
		return fmt.Errorf("%w: GrowthBytes is %d, want 0 to %d", ErrConfig, c.GrowthBytes,
			int64(growthBytesMax))
	}
	if c.GoneBytes < 0 || c.GoneBytes > goneBytesMax {
		return fmt.Errorf("%w: GoneBytes is %d, want 0 to %d", ErrConfig, c.GoneBytes,
			int64(goneBytesMax))
	}
	if c.TotalBytes < int64(c.WindowBytesMax) || c.TotalBytes > totalBytesMax {
		return fmt.Errorf("%w: TotalBytes is %d, want WindowBytesMax, which is %d, to %d", ErrConfig,
			c.TotalBytes, c.WindowBytesMax, int64(totalBytesMax))
	}
	return nil
}
