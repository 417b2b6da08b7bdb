//go:build linux && cgo

package ofi

import (
	"bytes"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"

	"gobtl/fabric"
)

// TestOffloadModel receives random runs and single datagrams in random portions, with changing
// landings. Every datagram must arrive in order and complete, either in one piece or as head and
// landing.
func TestOffloadModel(t *testing.T) {
	landed, whole := 0, 0
	for seed := range uint64(40) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			m := newOffloadModel(t, seed)
			for range 60 {
				m.step()
			}
			m.finish()
			landed += m.landed
			whole += m.whole
		})
	}
	if landed < 1000 || whole < 1000 {
		t.Errorf("%d datagrams landed, %d did not: no test of that", landed, whole)
	}
}

type offloadModel struct {
	t     *testing.T
	rnd   *rand.Rand
	d     fabric.Domain
	e     *endpoint
	conn  *net.UDPConn
	to    *net.UDPAddr
	piece int          // present segment size of the peer's socket
	next  int          // text number of the next sent datagram
	want  [][]byte     // sent but not polled
	free  []fabric.Buf // not posted
	land  []byte
	head  int
	off   int // used bytes of the landing
	// The counters are the datagrams that have landed, and those that have not.
	landed, whole int
}

func newOffloadModel(t *testing.T, seed uint64) *offloadModel {
	d, e := offloaded(t, 0)
	conn, _ := stranger(t)
	return &offloadModel{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), d: d, e: e, conn: conn,
		to:   &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: portOf(t, e)},
		free: seqBufs(0, 300),
	}
}

func (m *offloadModel) step() {
	switch r := m.rnd.IntN(10); {
	case r < 3 && len(m.want) < 400:
		m.send()
	case r < 5:
		n := min(m.rnd.IntN(100), len(m.free))
		mustRecv(m.t, m.e, m.free[:n]...)
		m.free = m.free[n:]
	case r == 5:
		m.newLanding()
	default:
		m.poll(1 + m.rnd.IntN(140))
	}
}

// send sends a run or a single datagram, mostly of the same size as before.
func (m *offloadModel) send() {
	if m.rnd.IntN(4) == 0 || m.piece == 0 {
		m.piece = []int{1472, 1472, 1472, 1000, 100, 1 + m.rnd.IntN(1472)}[m.rnd.IntN(6)]
		setSegment(m.t, m.conn, m.piece)
	}
	total := m.rnd.IntN(3 * m.piece)
	if m.rnd.IntN(2) == 0 {
		total = m.rnd.IntN(min(64*m.piece, runBytes4) + 1)
	}
	var message []byte
	for rest := total; rest > 0 || total == 0; rest -= m.piece {
		part := text(m.next, min(rest, m.piece))
		m.next++
		m.want = append(m.want, part)
		message = append(message, part...)
		if total == 0 {
			break
		}
	}
	if _, err := m.conn.WriteToUDP(message, m.to); err != nil {
		m.t.Fatal(err)
	}
}

func (m *offloadModel) newLanding() {
	m.land, m.head, m.off = nil, []int{0, 40, 40, 40, 1471, 1500}[m.rnd.IntN(6)], 0
	if m.rnd.IntN(4) > 0 {
		m.land = make([]byte, 1+m.rnd.IntN(100_000))
	}
	if !m.e.Land(m.land, m.head) {
		m.t.Fatal("Land was refused")
	}
}

func (m *offloadModel) poll(most int) int {
	out := make([]fabric.Completion, most)
	n, err := m.e.Poll(out)
	if err != nil {
		m.t.Fatal(err)
	}
	for i := range out[:n] {
		m.check(&out[i])
	}
	return n
}

func (m *offloadModel) check(c *fabric.Completion) {
	m.t.Helper()
	if len(m.want) == 0 || c.Errno != 0 || int(c.Len) != len(m.want[0]) {
		m.t.Fatalf("%+v, of %d datagrams sent", c, len(m.want))
	}
	want := m.want[0]
	m.want = m.want[1:]
	arena := m.d.Arena()
	got := arena.Bytes(c.Buf)[:c.Len-c.Landed]
	if c.Landed > 0 {
		if int(c.LandedOff) != m.off || len(got) != m.head {
			m.t.Fatalf("%+v; want it at %d, behind a head of %d", c, m.off, m.head)
		}
		got = append(bytes.Clone(got), m.land[m.off:m.off+int(c.Landed)]...)
		m.off += int(c.Landed)
		m.landed++
	} else {
		m.whole++
	}
	if !bytes.Equal(got, want) {
		m.t.Fatalf("%+v: other bytes than sent", c)
	}
	m.free = append(m.free, c.Buf)
}

// finish receives the remaining datagrams.
func (m *offloadModel) finish() {
	for len(m.want) > 0 {
		if n := min(len(m.free), 64); n > 0 {
			mustRecv(m.t, m.e, m.free[:n]...)
			m.free = m.free[n:]
		}
		if m.poll(64) == 0 {
			m.t.Fatalf("%d datagrams are missing", len(m.want))
		}
	}
}
