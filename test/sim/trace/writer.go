package trace

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"gobtl/fabric/sim"
	"gobtl/internal/mono"
)

// Writer writes one line per event:
//
//	time_us      node(s) channel  what        datagram  packet
//	      12.500 a>b     cmd      sent        #7        frag      to=b:1 tag=1 seq=0 ack=-1 credit=8
//
// Sequence numbers, acknowledgements and fragment ids are relative to the first number of their
// side in the handshake, so the first packet of a connection has seq=0, and ack=-1 acknowledges
// nothing.
// A connection tag is shown with the node that chose it, such as a:1 for the first tag of node a.
// Numbers and tags without a known handshake are shown in hexadecimal.
type Writer struct {
	w       io.Writer
	d       *decoder
	line    []byte
	err     error
	brief   bool
	muted   bool
	lastID  uint64 // of the datagrams that were seen
	base    uint64 // numbers of datagrams are shown from here on
	without [sim.NumKinds]bool
}

// An Option changes what a Writer writes.
type Option func(*Writer)

// Brief shortens packets to their kind and number, except in the first event of each datagram.
func Brief() Option { return func(w *Writer) { w.brief = true } }

// Without omits events of the given kinds.
func Without(kinds ...sim.Kind) Option {
	return func(w *Writer) {
		for _, k := range kinds {
			w.without[k] = true
		}
	}
}

// New returns a Writer to w.
func New(w io.Writer, opts ...Option) *Writer {
	t := &Writer{w: w, d: newDecoder()}
	for _, o := range opts {
		o(t)
	}
	return t
}

// Err returns the first write error, after which nothing more is written.
func (w *Writer) Err() error { return w.err }

// Life gives a module's incarnation a name, which is shown for Hellos instead of the number.
func (w *Writer) Life(incarnation uint64, name string) { w.d.lives[incarnation] = name }

// Mute stops the output until the next Unmute, which also restarts the numbering of datagrams.
// While the output is muted, the Writer keeps its information about connections.
func (w *Writer) Mute() { w.muted = true }

// Unmute ends a Mute.
func (w *Writer) Unmute() { w.muted, w.base = false, w.lastID }

// The constants below are columns of a line.
const (
	pathColumns    = 9
	channelColumns = 9
	kindColumns    = 12
	idColumns      = 7
)

// Event writes one event, and has the signature of sim.Config.Observe.
func (w *Writer) Event(nw *sim.Network, e *sim.Event) {
	if e.Kind == sim.KindSent {
		w.d.learn(nodeName(nw, e.From), e.Data)
	}
	w.lastID = max(w.lastID, e.ID)
	if w.without[e.Kind] {
		return
	}
	from := nodeName(nw, e.From)
	if ofNode(e.Kind) {
		w.begin(e.At, from, "", e.Kind.String())
	} else {
		path, channel := from+">"+nodeName(nw, e.To), channelName(e.From.Index)
		if e.From.Index != e.To.Index {
			channel += ">" + channelName(e.To.Index)
		}
		w.begin(e.At, path, channel, e.Kind.String())
		w.pad(w.number(e.ID), idColumns)
		if e.Data == nil && e.Kind == sim.KindSendError {
			// A send error without data has no datagram.
		} else if w.brief && repeats(e.Kind) {
			w.line = w.d.appendBrief(w.line, e.Data)
		} else {
			w.line = w.d.appendPacket(w.line, e.Data)
		}
	}
	if e.Err != nil {
		w.line = append(w.line, ' ')
		w.line = append(w.line, e.Err.Error()...)
	}
	w.end()
}

// The method number formats a datagram's number, with a minus if it is from before an Unmute.
func (w *Writer) number(id uint64) string {
	if id == 0 {
		return ""
	}
	if id <= w.base {
		return "#-" + strconv.FormatUint(w.base-id, 10)
	}
	return "#" + strconv.FormatUint(id-w.base, 10)
}

// Note writes a line about an action of an application, which the network does not see.
func (w *Writer) Note(at mono.Time, node, text string) {
	w.begin(at, node, "", "app")
	w.pad("", idColumns)
	w.line = append(w.line, text...)
	w.end()
}

func (w *Writer) begin(at mono.Time, path, channel, kind string) {
	w.line = fmt.Appendf(w.line[:0], "%10d.%03d ", int64(at)/1000, int64(at)%1000)
	w.pad(path, pathColumns)
	w.pad(channel, channelColumns)
	w.pad(kind, kindColumns)
}

// pad appends a column and at least one space.
func (w *Writer) pad(s string, columns int) {
	w.line = append(w.line, s...)
	for n := len(s); n < columns-1; n++ {
		w.line = append(w.line, ' ')
	}
	w.line = append(w.line, ' ')
}

func (w *Writer) end() {
	if w.err != nil || w.muted {
		return
	}
	n := len(w.line)
	for n > 0 && w.line[n-1] == ' ' {
		n--
	}
	w.line = append(w.line[:n], '\n')
	_, w.err = w.w.Write(w.line)
}

// ofNode reports whether an event belongs to a node and has no datagram.
func ofNode(k sim.Kind) bool {
	switch k {
	case sim.KindPostAgain, sim.KindPause, sim.KindSlow, sim.KindCrash, sim.KindOpen,
		sim.KindRestart, sim.KindProcessError:
		return true
	default:
		return false
	}
}

// repeats reports whether an event of this kind shows the same datagram as an earlier event.
func repeats(k sim.Kind) bool {
	switch k {
	case sim.KindSent, sim.KindInjected, sim.KindBitFlip, sim.KindTruncated, sim.KindJunk,
		sim.KindReplayed:
		return false
	default:
		return true
	}
}

func nodeName(nw *sim.Network, p sim.Port) string {
	if nodes := nw.Nodes(); p.Node >= 0 && p.Node < len(nodes) {
		return strings.ReplaceAll(nodes[p.Node].Name(), " ", "_")
	}
	return "node" + strconv.Itoa(p.Node)
}

func channelName(index int) string {
	switch index {
	case 0:
		return "cmd"
	case 1:
		return "data"
	}
	return "ep" + strconv.Itoa(index)
}
