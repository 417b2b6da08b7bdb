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
	// strangersMax is the largest number of unauthenticated connections, in addition to one per
	// rank.
	strangersMax = 16
	// proofPart is the divisor of Config.Timeout that gives the time in which a client must
	// authenticate itself.
	proofPart = 8
	// proofLeast is the shortest time that a client has for its authentication while other
	// clients wait.
	proofLeast = 100 * time.Millisecond
)

// rendezvous is the PMI-1 server in rank 0 of a job whose launcher has no PMI-1. Before the first
// line of PMI-1, server and client each prove that they know the secret of the job.
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
	failed   chan struct{} // closed when a rank has ended without Finalize
	ended    sync.WaitGroup

	lock      sync.Mutex // guards the fields below
	server    *pmi.Server
	conns     []net.Conn // by rank
	all       map[net.Conn]bool
	strangers []stranger // unauthenticated connections, the oldest first
	size      int
	over      bool // finished or failed
	closed    bool
}

// stranger is a connection that is not authenticated yet.
type stranger struct {
	conn net.Conn
	safe time.Time // before this time the connection is not evicted
}

// openRendezvous creates the listener. openRendezvous creates the directory of a Unix socket,
// which must not exist before.
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

// newRendezvous starts the goroutine that accepts connections.
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

func (r *rendezvous) accept() {
	for {
		conn, err := r.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // possibly too many open files: retry
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

// makeRoom reports whether another unauthenticated connection may be added. makeRoom may close
// the oldest unauthenticated connection after the connection's minimum time (proofLeast).
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
	_ = oldest.conn.Close() // the error does not matter
	r.known(oldest.conn)
	return true
}

// known removes a connection from the list of unauthenticated connections. The caller must hold the
// lock.
func (r *rendezvous) known(conn net.Conn) {
	r.strangers = slices.DeleteFunc(r.strangers, func(s stranger) bool { return s.conn == conn })
}

// enter adds a connection to the list of unauthenticated connections. If the server is closed,
// enter returns false.
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
	_ = conn.Close() // nothing more is read or written
}

// serve handles one client until the client's connection ends.
func (r *rendezvous) serve(conn net.Conn) {
	_ = conn.SetDeadline(soon(r.limit / proofPart))
	in := bounded.NewLines(conn, pmi.LineBytesMax-1)
	rank, ok, err := r.welcome(conn, in)
	if !ok {
		return // an unauthenticated client gets no reply
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

// welcome authenticates a client. The result ok of welcome reports whether the connection is that
// of a rank. The error of welcome is the error of sending the replies to the rank.
func (r *rendezvous) welcome(conn net.Conn, in *bounded.Lines) (rank int, ok bool, err error) {
	mine := rand.Text()
	if _, err := fmt.Fprintf(conn, "cmd=challenge nonce=%s\n", mine); err != nil {
		return 0, false, err
	}
	line, err := in.Next()
	if err != nil {
		return 0, false, err
	}
	m, err := pmi.Parse(line)
	if err != nil {
		return 0, false, err
	}
	if rank, err = m.Int("pmiid", 0, r.size-1); err != nil {
		return 0, false, err
	}
	yours, _ := m.Get("nonce")
	proof, _ := m.Get("proof")
	want := r.at.proof(fmt.Sprint("rank ", rank), mine, yours)
	if m.Cmd != "initack" || !hmac.Equal([]byte(proof), []byte(want)) {
		return 0, false, nil
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.over || r.conns[rank] != nil {
		return 0, false, nil
	}
	r.conns[rank] = conn
	r.known(conn)
	_, err = fmt.Fprintf(conn, "cmd=initack rc=0 proof=%s\n", r.at.proof("server", mine, yours))
	for _, line := range r.server.Welcome(rank)[1:] {
		if err == nil {
			_, err = io.WriteString(conn, line)
		}
	}
	return rank, true, err
}

// handle passes a line from a rank to the PMI-1 server, and sends the server's replies.
func (r *rendezvous) handle(rank int, line []byte) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	replies, err := r.server.Handle(rank, line)
	for _, reply := range replies {
		conn := r.conns[reply.Rank]
		if conn == nil {
			continue // the connection ended: serve handles it
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

// fail closes all connections, because the job has failed. The caller must hold the lock.
func (r *rendezvous) fail() {
	if r.over {
		return
	}
	r.over = true
	close(r.failed)
	for conn := range r.all {
		_ = conn.Close() // tells the other ranks about the failure
	}
}

// wait waits until all ranks have finalized. The errors of wait are ErrTimeout, ErrGone, and the
// cause of ctx.
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

// close closes the listener and all connections, and waits for the goroutines of the server.
func (r *rendezvous) close() {
	r.lock.Lock()
	r.fail()
	r.closed = true
	for conn := range r.all {
		_ = conn.Close()
	}
	r.lock.Unlock()
	_ = r.listener.Close() // also removes the socket file
	r.ended.Wait()
	if r.at.network == "unix" {
		_ = os.Remove(filepath.Dir(r.at.address)) // rank 0 or mpirun removes the empty directory
	}
}

// proof returns an HMAC of the two nonces with the secret of the job.
func (at *meeting) proof(who, server, client string) string {
	mac := hmac.New(sha256.New, at.secret)
	fmt.Fprintf(mac, "gobtl rendezvous/%s/%s/%s/%s", at.name, who, server, client)
	return hex.EncodeToString(mac.Sum(nil))
}

// proveMyself authenticates this rank to the server, and verifies that the server knows the secret
// of the job.
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
