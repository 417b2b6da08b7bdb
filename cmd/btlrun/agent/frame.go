//go:build unix

package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// GreetingPrefix is the beginning of the first line that an agent writes. The version and a newline
// follow the prefix. A first line with another beginning comes from the remote shell, not from an
// agent.
const (
	GreetingPrefix = "btlrun agent "
	Version        = "4"
	Greeting       = GreetingPrefix + Version + "\n"
)

// Kind is the kind of a frame.
type Kind uint8

// btlrun sends the kinds Start, PMI, Stdin, Signal, Credit and Kill to an agent. An agent sends the
// kinds PMI, Stdout, Stderr, Taken, Signalled and Exit to btlrun.
const (
	KindStart  Kind = iota + 1 // body: Start, as JSON
	KindPMI                    // body: a PMI line with its newline
	KindStdin                  // body: input of a rank; empty: end of the input
	KindTaken                  // the rank's input pipe has taken the input
	KindSignal                 // body: a byte, the signal for all ranks of the host
	KindStdout
	KindStderr
	KindExit      // body: Exit, as JSON
	KindCredit    // body: kind and number of written bytes of output
	KindSignalled // body: a byte, the signal that the ranks were sent
	KindKill      // SIGKILL for one rank
)

// The constants below are the maximum sizes of a frame's body, in bytes.
const (
	BodyBytesMax  = 64 << 10
	StartBytesMax = 16 << 20 // of KindStart, which holds the environment
)

// The constants below limit the bytes of a rank's output that the agent has sent and btlrun has not
// yet acknowledged by credit. Each limit applies to standard output and to standard error
// separately.
const (
	// WindowBytes is the limit for a running rank.
	WindowBytes = 64 << 10
	// LastBytes limits the output that an agent may send without credit after the rank has ended.
	// The limit is larger than WindowBytes, because the pipe of an ended rank may still contain
	// output.
	LastBytes = 128 << 10
)

const frameHead = 9

// ErrFrame means that the other side (btlrun or the agent) has sent an invalid frame.
var ErrFrame = errors.New("agent: malformed frame")

// NoFrame is an ErrFrame for received bytes that are not the header of a frame, and its field Head
// holds these bytes.
type NoFrame struct{ Head []byte }

// Error implements error.
func (e *NoFrame) Error() string { return fmt.Sprintf("%v: %q begins none", ErrFrame, e.Head) }

// Unwrap returns ErrFrame.
func (e *NoFrame) Unwrap() error { return ErrFrame }

// Frame is a message between btlrun and an agent.
type Frame struct {
	Kind Kind
	Rank int
	Body []byte
}

// Read reads the next frame. Read returns the errors of in, io.EOF after the last frame, or
// ErrFrame for an invalid frame.
func Read(in io.Reader) (Frame, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return Frame{}, err
	}
	f := Frame{Kind: Kind(head[0]), Rank: int(binary.BigEndian.Uint32(head[1:]))}
	size, most := binary.BigEndian.Uint32(head[5:]), uint32(BodyBytesMax)
	if f.Kind == KindStart {
		most = StartBytesMax
	}
	if f.Kind < KindStart || f.Kind > KindKill || size > most {
		return Frame{}, &NoFrame{Head: head[:]}
	}
	f.Body = make([]byte, size)
	if _, err := io.ReadFull(in, f.Body); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // io.EOF means an end between frames.
		}
		return Frame{}, fmt.Errorf("%w: it ends early: %w", ErrFrame, err)
	}
	return f, nil
}

// Writer writes frames. Any goroutine may use a Writer.
type Writer struct {
	lock sync.Mutex
	out  io.Writer
}

// NewWriter returns a Writer that writes to out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write writes a frame. The caller may reuse the frame's body after Write has returned.
func (w *Writer) Write(f Frame) error {
	b := make([]byte, frameHead, frameHead+len(f.Body))
	b[0] = byte(f.Kind)
	binary.BigEndian.PutUint32(b[1:], uint32(f.Rank))
	binary.BigEndian.PutUint32(b[5:], uint32(len(f.Body)))
	w.lock.Lock()
	defer w.lock.Unlock()
	_, err := w.out.Write(append(b, f.Body...))
	return err
}

// Start describes the ranks that an agent must start. Words and paths are byte slices, because JSON
// would change strings that are not valid UTF-8.
type Start struct {
	Ranks []int    // ranks to start on this host
	Size  int      // number of ranks of the job
	Args  [][]byte // the program and its arguments
	Env   [][]byte // the environment without the PMI variables
	Dir   []byte   // working directory of the ranks
	Stdin int      // the rank that reads standard input; -1: none
}

// Exit describes how a rank has ended.
type Exit struct {
	Status int    // exit status, if the rank has exited
	Signal int    // the signal that has killed the rank, or 0
	Error  []byte // why the rank could not be started, or why the agent has killed the rank
}

// AsBytes converts strings to the byte slices of Start.
func AsBytes(list []string) [][]byte {
	all := make([][]byte, len(list))
	for i, s := range list {
		all[i] = []byte(s)
	}
	return all
}

// asStrings is the inverse of AsBytes.
func asStrings(list [][]byte) []string {
	all := make([]string, len(list))
	for i, s := range list {
		all[i] = string(s)
	}
	return all
}

// creditBytes is the size in bytes of the body of a KindCredit.
const creditBytes = 5

// CreditFrame returns a frame that grants an agent credit for count bytes of a rank's output. The
// argument named of is either KindStdout or KindStderr.
func CreditFrame(rank int, of Kind, count int) Frame {
	body := binary.BigEndian.AppendUint32([]byte{byte(of)}, uint32(count))
	return Frame{Kind: KindCredit, Rank: rank, Body: body}
}

// The function credit decodes the body of a KindCredit frame.
func credit(body []byte) (of Kind, count int, err error) {
	if len(body) != creditBytes {
		return 0, 0, fmt.Errorf("%w: a credit of %d bytes", ErrFrame, len(body))
	}
	of, count = Kind(body[0]), int(binary.BigEndian.Uint32(body[1:]))
	if of != KindStdout && of != KindStderr {
		return 0, 0, fmt.Errorf("%w: credit for kind %d", ErrFrame, of)
	}
	return of, count, nil
}
