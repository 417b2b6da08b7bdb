package launch

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gobtl/internal/bounded"
	"gobtl/launch/pmi"
)

const (
	// strangersMax bounds the unauthenticated connections, in addition to one for each rank.
	strangersMax = 16
	// proofPart divides the time in which the ranks must connect. The quotient is the time for the
	// proof of a connection.
	proofPart = 8
	// proofLeast is the time for the proof while other connections wait for the place. So any
	// number of silent strangers that connect before the ranks delay the ranks only briefly.
	proofLeast = 100 * time.Millisecond
)

// rendezvous is the PMI-1 server in rank 0 of a job whose launcher has none. Before the first line
// of PMI-1 both sides prove that they know the secret of the job:
//
//	rank 0                                      another rank
//	cmd=challenge nonce=S                 -->
//	                                      <--   cmd=initack pmiid=RANK nonce=C proof=H(rank, S, C)
//	cmd=initack rc=0 proof=H(server, S, C) -->
type rendezvous struct {
	at       meeting
	limit    time.Duration
	listener net.Listener
	finished chan struct{} // closed when all ranks have finished
	failed   chan struct{} // closed when one has ended without
	ended    sync.WaitGroup

	lock      sync.Mutex // of what follows
	server    *pmi.Server
	conns     []net.Conn // by rank
	all       map[net.Conn]bool
	strangers []stranger // without a proof, in the order of their coming
	size      int
	over      bool // finished or failed
	closed    bool
}

// stranger is a connection that is not authenticated.
type stranger struct {
	conn net.Conn
	safe time.Time // no other connection may replace it before that
}

// openRendezvous begins to listen. A directory for a socket must not be there yet.
func openRendezvous(at meeting, size int, limit time.Duration) (*rendezvous, error) {
	server, err := pmi.NewServer(pmi.Config{Size: size, Name: at.name})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRendezvous, err)
	}
	if at.network == "unix" {
		if err := os.Mkdir(filepath.Dir(at.address), 0o700); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRendezvous, err)
		}
	}
	listener, err := net.Listen(at.network, at.address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRendezvous, err)
	}
	return newRendezvous(at, server, size, limit, listener), nil
}

// newRendezvous begins to take connections.
func newRendezvous(at meeting, server *pmi.Server, size int, limit time.Duration,
	listener net.Listener,
) *rendezvous {
	r := &rendezvous{
		at: at, limit: limit, listener: listener, server: server, size: size,
		conns: make([]net.Conn, size), all: map[net.Conn]bool{},
		finished: make(chan struct{}), failed: make(chan struct{}),
	}
	r.ended.Go(r.accept)
	return r
}

// accept takes connections until the listener is closed.
func (r *rendezvous) accept() {
	for {
		conn, err := r.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // The process has no descriptor left, maybe: others give theirs back.
			pause()
			continue
		}
		for !r.makeRoom() {
			pause()
		}
		entered := r.enter(conn)
		r.ended.Go(func() {
			if entered {
				r.serve(conn)
			}
			r.leave(conn)
		})
	}
}

// makeRoom reports whether there is room for another stranger. It may close the oldest stranger if
// that has had its time for the proof.
func (r *rendezvous) makeRoom() bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	if len(r.strangers) < strangersMax+r.size {
		return true
	}
	oldest := r.strangers[0]
	if !passed(oldest.safe) {
		return false
	}
	_ = oldest.conn.Close() // The error is of no use.
	r.known(oldest.conn)
	return true
}

// known removes a connection from the strangers. The lock is held.
func (r *rendezvous) known(conn net.Conn) {
	r.strangers = slices.DeleteFunc(r.strangers, func(s stranger) bool { return s.conn == conn })
}

// enter registers a connection, unless the server no longer accepts connections.
func (r *rendezvous) enter(conn net.Conn) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.all[conn] = true
	r.strangers = append(r.strangers, stranger{conn, soon(proofLeast)})
	return !r.closed
}

func (r *rendezvous) leave(conn net.Conn) {
	r.lock.Lock()
	defer r.lock.Unlock()
	delete(r.all, conn)
	r.known(conn)
	_ = conn.Close() // Nothing more is read or written.
}

// serve handles one client until its connection ends.
func (r *rendezvous) serve(conn net.Conn) {
	_ = conn.SetDeadline(soon(r.limit / proofPart))
	in := bounded.NewLines(conn, pmi.LineBytesMax-1)
	rank, err := r.welcome(conn, in)
	if err != nil {
		return // A stranger is told nothing.
	}
	_ = conn.SetDeadline(time.Time{})
	for err == nil {
		var line []byte
		if line, err = in.Next(); err == nil {
			err = r.handle(rank, line)
		}
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	r.conns[rank] = nil
	if !errors.Is(err, io.EOF) || r.server.Leave(rank) != nil {
		r.fail()
	}
}

// welcome authenticates a client, and assigns its rank.
func (r *rendezvous) welcome(conn net.Conn, in *bounded.Lines) (rank int, err error) {
	mine := rand.Text()
	if _, err := fmt.Fprintf(conn, "cmd=challenge nonce=%s\n", mine); err != nil {
		return 0, err
	}
	line, err := in.Next()
	if err != nil {
		return 0, err
	}
	m, err := pmi.Parse(line)
	if err != nil {
		return 0, err
	}
	if rank, err = m.Int("pmiid", 0, r.size-1); err != nil {
		return 0, err
	}
	yours, _ := m.Get("nonce")
	proof, _ := m.Get("proof")
	want := r.at.proof(fmt.Sprint("rank ", rank), mine, yours)
	if m.Cmd != "initack" || !hmac.Equal([]byte(proof), []byte(want)) {
		return 0, ErrRendezvous
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.over || r.conns[rank] != nil {
		return 0, ErrRendezvous
	}
	r.conns[rank] = conn
	r.known(conn)
	_, err = fmt.Fprintf(conn, "cmd=initack rc=0 proof=%s\n", r.at.proof("server", mine, yours))
	for _, line := range r.server.Welcome(rank)[1:] {
		if err == nil {
			_, err = io.WriteString(conn, line)
		}
	}
	return rank, err
}

// handle passes a line of a rank to the server, and sends the replies.
func (r *rendezvous) handle(rank int, line []byte) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	replies, err := r.server.Handle(rank, line)
	for _, reply := range replies {
		conn := r.conns[reply.Rank]
		if conn == nil {
			continue // The goroutine that serves it notices its end.
		}
		_ = conn.SetWriteDeadline(soon(r.limit))
		if _, err := io.WriteString(conn, reply.Line); err != nil {
			return err
		}
	}
	if err == nil && r.server.Finished() == r.size && !r.over {
		r.over = true
		close(r.finished)
	}
	return err
}

// fail ends all connections: the job has failed. The lock is held.
func (r *rendezvous) fail() {
	if r.over {
		return
	}
	r.over = true
	close(r.failed)
	for conn := range r.all {
		_ = conn.Close() // The other ranks learn of the failure by this.
	}
}

// wait waits until all ranks have finished.
func (r *rendezvous) wait(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("%w: not all ranks have finished within %v", ErrTimeout, limit))
	defer cancel()
	select {
	case <-r.finished:
		return nil
	case <-r.failed:
		return fmt.Errorf("%w: another rank has ended without Finalize", ErrGone)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close ends the server, and waits for its goroutines.
func (r *rendezvous) close() {
	r.lock.Lock()
	r.fail()
	r.closed = true
	for conn := range r.all {
		_ = conn.Close()
	}
	r.lock.Unlock()
	_ = r.listener.Close() // It removes its socket; no more clients can connect.
	r.ended.Wait()
	if r.at.network == "unix" {
		_ = os.Remove(filepath.Dir(r.at.address)) // Whoever removes it first, it is empty.
	}
}

// proof returns a value that can only be computed with the secret of the job.
func (at *meeting) proof(who, server, client string) string {
	mac := hmac.New(sha256.New, at.secret)
	fmt.Fprintf(mac, "gobtl rendezvous/%s/%s/%s/%s", at.name, who, server, client)
	return hex.EncodeToString(mac.Sum(nil))
}

// proveMyself authenticates this rank to the server, and verifies that the server belongs to the
// job.
func (j *Job) proveMyself(ctx context.Context, at meeting) error {
	m, err := j.link.ask(ctx, j.cfg.Timeout, "", "challenge")
	if err != nil {
		return err
	}
	theirs, _ := m.Get("nonce")
	mine := rand.Text()
	line := fmt.Sprintf("cmd=initack pmiid=%d nonce=%s proof=%s", j.rank, mine,
		at.proof(fmt.Sprint("rank ", j.rank), theirs, mine))
	if m, err = j.link.ask(ctx, j.cfg.Timeout, line, "initack"); err != nil {
		return err
	}
	proof, _ := m.Get("proof")
	if !hmac.Equal([]byte(proof), []byte(at.proof("server", theirs, mine))) {
		err := fmt.Errorf("%w: who listens there does not know the secret of this job", ErrRendezvous)
		j.link.close(err)
		return err
	}
	return nil
}
