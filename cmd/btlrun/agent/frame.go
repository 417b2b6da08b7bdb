//go:build unix

package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// GreetingPrefix is the beginning of the first line of an agent. Output before it, or instead of
// it, is from a shell. The version and a newline follow it.
const (
	GreetingPrefix = "btlrun agent "
	Version        = "3"
	Greeting       = GreetingPrefix + Version + "\n"
)

// Kind is the kind of a frame.
type Kind uint8

// The kinds of frames. To the agent: Start, PMI, Stdin, Signal, Credit. From it: PMI, Stdout,
// Stderr, Taken, Signalled, Exit.
const (
	KindStart  Kind = iota + 1 // Start, as JSON
	KindPMI                    // a line, with its newline
	KindStdin                  // what the rank is to read; nothing is the end
	KindTaken                  // it has been read, as far as the kernel is concerned
	KindSignal                 // a byte: the signal for all ranks of the host
	KindStdout
	KindStderr
	KindExit      // Exit, as JSON
	KindCredit    // Credit: so many bytes of the rank's output have been written
	KindSignalled // a byte: the ranks of the host have been sent this signal
)

// Sizes of a frame's body, in bytes.
const (
	BodyBytesMax  = 64 << 10
	StartBytesMax = 16 << 20 // of KindStart, which has the whole environment
)

// The most bytes under way of a rank's standard output, and separately of its standard error.
const (
	// WindowBytes is the window of a running rank. Output beyond the window waits for credit.
	WindowBytes = 64 << 10
	// LastBytes bounds the output that may follow without credit after the rank has ended: the
	// content of its pipe.
	LastBytes = 128 << 10
)

const frameHead = 9

// ErrFrame: the other side has sent an invalid frame.
var ErrFrame = errors.New("agent: malformed frame")

// NoFrame is the ErrFrame of bytes that begin no frame.
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

// Read reads the next frame. Its errors are those of in, io.EOF behind the last frame, and
// ErrFrame.
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
	if f.Kind < KindStart || f.Kind > KindSignalled || size > most {
		return Frame{}, &NoFrame{Head: head[:]}
	}
	f.Body = make([]byte, size)
	if _, err := io.ReadFull(in, f.Body); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // io.EOF is an end between frames.
		}
		return Frame{}, fmt.Errorf("%w: it ends early: %w", ErrFrame, err)
	}
	return f, nil
}

// Writer writes frames for any goroutine.
type Writer struct {
	lock sync.Mutex
	out  io.Writer
}

// NewWriter returns a Writer that writes to out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write writes a frame, whose body is its caller's again when it returns.
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
	Ranks []int    // of this host
	Size  int      // of the job
	Args  [][]byte // the program and its arguments
	Env   [][]byte // all of it, but for PMI's
	Dir   []byte   // where the ranks begin
	Stdin int      // the rank that reads standard input; -1: none
}

// Exit is how a rank has ended.
type Exit struct {
	Status int    // if it has exited
	Signal int    // if one has killed it
	Error  []byte // why it could not be started
}

// AsBytes are strings as Start has them.
func AsBytes(list []string) [][]byte {
	all := make([][]byte, len(list))
	for i, s := range list {
		all[i] = []byte(s)
	}
	return all
}

// asStrings is the other way.
func asStrings(list [][]byte) []string {
	all := make([]string, len(list))
	for i, s := range list {
		all[i] = string(s)
	}
	return all
}

// creditBytes is the size of the body of a KindCredit.
const creditBytes = 5

// CreditFrame says that so many bytes of a rank's KindStdout or KindStderr have been written.
func CreditFrame(rank int, of Kind, count int) Frame {
	body := binary.BigEndian.AppendUint32([]byte{byte(of)}, uint32(count))
	return Frame{Kind: KindCredit, Rank: rank, Body: body}
}

// credit reads the body of a KindCredit.
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
