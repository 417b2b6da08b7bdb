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
	// In addition to one unauthenticated connection for each rank of the job, the server accepts
	// strangersMax unauthenticated connections at the same time.
	strangersMax = 16
	// After connecting, a client must authenticate itself within the time Config.Timeout divided by
	// proofPart.
	proofPart = 8
	// The server does not close an unauthenticated connection that is younger than proofLeast in
	// favour of a new connection from a different host.
	proofLeast = 100 * time.Millisecond
	// outboxBytesMax is the largest total size, in bytes, of the replies to one rank that the server
	// queues until the rank reads them. A rank that follows the protocol reads the reply to each
	// request before it sends the next request.
	outboxBytesMax = 64 << 10
	// flushTime is the time that the server gives a rank to read the rank's last replies, before the
	// server closes the rank's connection.
	flushTime = time.Second
)

// A rendezvous is the PMI-1 server in rank 0 of a job whose launcher does not support PMI-1. At the
// beginning of each connection, the server and the client prove to each other that they know the
// secret of the job.
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
	outs      []*bounded.Outbox // by rank; nil without a connection
	strangers []stranger        // unauthenticated connections, the oldest first
	size      int
	over      bool // finished or failed
	closed    bool
	why       error // why the first rank has ended without Finalize
}

// stranger is a connection that is not authenticated yet.
type stranger struct {
	conn net.Conn
	host string    // see bounded.ShareOf
	safe time.Time // before this time the connection is not evicted
}

// openRendezvous creates the listener of the server. For a Unix socket, openRendezvous first
// creates the directory of the socket, and fails if the directory exists.
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
		outs:     make([]*bounded.Outbox, size),
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
		host := bounded.ShareOf(conn.RemoteAddr())
		for !r.makeRoom(host) {
			pause()
		}
		if !r.enter(conn, host) {
			_ = conn.Close() // the server is closed
			continue
		}
		r.ended.Go(func() { r.serve(conn) })
	}
}

// makeRoom reports whether the server can accept one more unauthenticated connection from the given
// host. When the server has its largest number of unauthenticated connections, makeRoom first
// closes an unauthenticated connection. If the given host has more unauthenticated connections than
// the job has ranks, makeRoom closes the oldest unauthenticated connection of the given host. If
// the given host has at most as many unauthenticated connections as the job has ranks, makeRoom
// chooses the oldest unauthenticated connection of the host with the most unauthenticated
// connections. If the chosen connection is younger than proofLeast, makeRoom does not close it and
// returns false.
func (r *rendezvous) makeRoom(host string) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	if len(r.strangers) < strangersMax+r.size {
		return true
	}
	count := make(map[string]int)
	for _, s := range r.strangers {
		count[s.host]++
	}
	old := r.oldestOfMost(count)
	if count[host] > r.size {
		old = r.oldestOf(host)
	} else if !passed(old.safe) {
		return false
	}
	_ = old.conn.Close() // the error does not matter
	r.known(old.conn)
	return true
}

// oldestOf returns the oldest unauthenticated connection of the given host, and panics if the host
// has none. The caller must hold the lock.
func (r *rendezvous) oldestOf(host string) stranger {
	return r.strangers[slices.IndexFunc(r.strangers, func(s stranger) bool { return s.host == host })]
}

// oldestOfMost returns the oldest unauthenticated connection of the host with the most
// unauthenticated connections. The argument "count" has the number of unauthenticated connections
// of each host. The caller must hold the lock.
func (r *rendezvous) oldestOfMost(count map[string]int) (oldest stranger) {
	most := 0
	for _, s := range r.strangers {
		if count[s.host] > most {
			oldest, most = s, count[s.host]
		}
	}
	return oldest
}

// The method "known" removes a connection from the list of unauthenticated connections. The caller
// must hold the lock.
func (r *rendezvous) known(conn net.Conn) {
	r.strangers = slices.DeleteFunc(r.strangers, func(s stranger) bool { return s.conn == conn })
}

// isStranger reports whether a connection is in the list of unauthenticated connections. A
// connection that makeRoom has closed is not in the list. The caller must hold the lock.
func (r *rendezvous) isStranger(conn net.Conn) bool {
	return slices.ContainsFunc(r.strangers, func(s stranger) bool { return s.conn == conn })
}

// The method "enter" adds a connection to the list of unauthenticated connections. The method
// "enter" returns true, or false if the server is closed.
func (r *rendezvous) enter(conn net.Conn, host string) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.closed {
		return false
	}
	r.strangers = append(r.strangers, stranger{
		conn: conn, host: host, safe: soon(proofLeast),
	})
	return true
}

// turnAway closes the connection of a client that has not proved to be a rank of the job.
func (r *rendezvous) turnAway(conn net.Conn) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.known(conn)
	_ = conn.Close() // an unauthenticated client gets no reply
}

// enterOwn adds rank 0 itself to the job, and returns rank 0's end of a connection in memory. Rank
// 0 does not connect to its own listener, because the server could close that connection in favour
// of strangers.
func (r *rendezvous) enterOwn() net.Conn {
	mine, conn := net.Pipe()
	out := bounded.NewOutbox(conn, outboxBytesMax, r.limit)
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.over { // a different rank has ended the job already
		_ = conn.Close()
		return mine
	}
	r.outs[0] = out
	for _, line := range r.server.Welcome(0) {
		out.Put([]byte(line))
	}
	r.ended.Go(func() { r.serveRank(conn, bounded.NewLines(conn, pmi.LineBytesMax-1), 0, out) })
	return mine
}

// serve handles one client until the client's connection ends.
func (r *rendezvous) serve(conn net.Conn) {
	_ = conn.SetDeadline(soon(r.limit / proofPart))
	in := bounded.NewLines(conn, pmi.LineBytesMax-1)
	rank, out := r.welcome(conn, in)
	if out == nil {
		r.turnAway(conn)
		return
	}
	r.serveRank(conn, in, rank, out)
}

// serveRank handles the requests of one rank until the rank's connection ends.
func (r *rendezvous) serveRank(conn net.Conn, in *bounded.Lines, rank int, out *bounded.Outbox) {
	r.ended.Go(func() {
		out.Run()
		_ = conn.Close() // nothing more is written
	})
	var err error
	for err == nil {
		var line []byte
		if line, err = in.Next(); err == nil {
			err = r.handle(rank, line)
		} else if !errors.Is(err, io.EOF) {
			err = fmt.Errorf("rank %d: %w", rank, err)
		}
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	r.gone(rank, out, err)
}

// The method "gone" is called when the connection of a rank has ended, and tells the PMI-1 server
// that the rank has ended. If the server closed the connection because the rank did not read its
// replies, the job continues without this rank, unless ranks are waiting for this rank in a
// barrier. The caller must hold the lock.
func (r *rendezvous) gone(rank int, out *bounded.Outbox, err error) {
	r.outs[rank] = nil
	cut := out.Err()
	out.Close(flushTime)
	switch {
	case r.over:
		return
	case errors.Is(cut, bounded.ErrUntaken):
		r.blame(fmt.Errorf("rank %d does not read its replies: %w", rank, cut))
		err = r.server.Lose(rank)
	case cut != nil:
		err = fmt.Errorf("rank %d: %w", rank, cut)
	case errors.Is(err, io.EOF):
		err = r.server.Leave(rank)
	}
	if err != nil {
		r.fail(err)
	}
	r.finish()
}

// The method "blame" records why a rank has ended without Finalize. If a reason is recorded
// already, the method "blame" does nothing. The caller must hold the lock.
func (r *rendezvous) blame(why error) {
	if r.why == nil {
		r.why = why
	}
}

// The method "finish" closes the channel "finished" if all ranks have finished. The caller must
// hold the lock.
func (r *rendezvous) finish() {
	if r.server.Finished() == r.size && !r.over {
		r.over = true
		close(r.finished)
	}
}

// The method "welcome" authenticates a client, and returns the client's rank and the Outbox for its
// replies. For a client that is not a rank of this job, the method "welcome" returns a nil Outbox.
func (r *rendezvous) welcome(conn net.Conn, in *bounded.Lines) (rank int, out *bounded.Outbox) {
	mine := rand.Text()
	if _, err := fmt.Fprintf(conn, "cmd=challenge nonce=%s\n", mine); err != nil {
		return 0, nil
	}
	line, err := in.Next()
	if err != nil {
		return 0, nil
	}
	m, err := pmi.Parse(line)
	if err != nil {
		return 0, nil
	}
	if rank, err = m.Int("pmiid", 1, r.size-1); err != nil { // rank 0 does not connect
		return 0, nil
	}
	yours, _ := m.Get("nonce")
	proof, _ := m.Get("proof")
	want := r.at.proof(fmt.Sprint("rank ", rank), mine, yours)
	if m.Cmd != "initack" || !hmac.Equal([]byte(proof), []byte(want)) {
		return 0, nil
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.over || r.outs[rank] != nil || r.server.Ended(rank) {
		return 0, nil
	}
	if !r.isStranger(conn) { // makeRoom has closed the connection: the rank connects again
		return 0, nil
	}
	_ = conn.SetDeadline(time.Time{})
	out = bounded.NewOutbox(conn, outboxBytesMax, r.limit)
	r.outs[rank] = out
	r.known(conn)
	lines := r.server.Welcome(rank)
	lines[0] = fmt.Sprintf("cmd=initack rc=0 proof=%s\n", r.at.proof("server", mine, yours))
	for _, line := range lines {
		out.Put([]byte(line))
	}
	return rank, out
}

// The method "handle" passes a line from a rank to the PMI-1 server, and queues the server's
// replies.
func (r *rendezvous) handle(rank int, line []byte) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	replies, err := r.server.Handle(rank, line)
	for _, reply := range replies {
		if out := r.outs[reply.Rank]; out != nil { // otherwise gone handles the rank
			out.Put([]byte(reply.Line))
		}
	}
	if err == nil {
		r.finish()
	}
	return err
}

// The method "fail" closes all connections, because the job has failed. The caller must hold the
// lock.
func (r *rendezvous) fail(why error) {
	if r.over {
		return
	}
	r.over = true
	r.blame(why)
	close(r.failed)
	r.closeAll() // tells the other ranks about the failure
}

// closeAll closes unauthenticated connections at once, and closes the connection of a rank after
// writing the rank's last replies. The caller must hold the lock.
func (r *rendezvous) closeAll() {
	for _, s := range r.strangers {
		_ = s.conn.Close() // nothing was promised to it
	}
	for _, out := range r.outs {
		if out != nil {
			out.Close(flushTime)
		}
	}
}

// The method "wait" waits until all ranks have called Finalize. The errors of the method "wait" are
// ErrTimeout, ErrGone, and the cause of ctx.
func (r *rendezvous) wait(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("%w: not all ranks have finished within %v", ErrTimeout, limit))
	defer cancel()
	select {
	case <-r.finished:
	case <-r.failed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.why != nil {
		return fmt.Errorf("%w: %w", ErrGone, r.why)
	}
	return nil
}

// The method "close" closes the listener and all connections, and waits until the goroutines of the
// server have ended.
func (r *rendezvous) close() {
	r.lock.Lock()
	r.fail(ErrFinalized)
	r.closed = true
	r.closeAll()
	r.lock.Unlock()
	_ = r.listener.Close() // also removes the socket file
	r.ended.Wait()
	if r.at.network == "unix" {
		_ = os.Remove(filepath.Dir(r.at.address)) // rank 0 or mpirun removes the empty directory
	}
}

// The method "proof" returns an HMAC of two nonces, with the secret of the job as the key. By
// sending this HMAC, a client or server proves that it knows the secret of the job.
func (at *meeting) proof(who, server, client string) string {
	mac := hmac.New(sha256.New, at.secret)
	fmt.Fprintf(mac, "gobtl rendezvous/%s/%s/%s/%s", at.name, who, server, client)
	return hex.EncodeToString(mac.Sum(nil))
}

// proofsMax is the maximum number of proofs (HMACs with the secret of the job) that a rank sends to
// rank 0. If rank 0 accepts none of the proofsMax proofs, the rank gives up.
const proofsMax = 8

// reachOwn connects rank 0 to its own server.
func (j *Job) reachOwn(ctx context.Context) error {
	j.link = newLink(j.meet.enterOwn())
	_, err := j.link.ask(ctx, j.cfg.Timeout, "", "initack")
	return err
}

// The method "reach" connects to rank 0, and authenticates both sides. The method "reach" repeats
// the attempt to connect until rank 0 is listening. If rank 0 closes the connection during the
// authentication, for example in favour of a newer connection, the method "reach" connects again.
// Because rank 0 closes the connection after a wrong proof as well, the method "reach" gives up
// after proofsMax proofs.
func (j *Job) reach(ctx context.Context, at meeting) error {
	if at.network == "unix" {
		// The directory of the socket at which rank 0 listens must belong to this user, because a
		// different user could have created a directory with the same name.
		if err := awaitOwn(ctx, filepath.Dir(at.address), j.cfg.Timeout); err != nil {
			return err
		}
	}
	proofs := 0
	return again(ctx, j.cfg.Timeout, func(dialing context.Context) (bool, error) {
		conn, err := new(net.Dialer).DialContext(dialing, at.network, at.address)
		if err != nil {
			return false, fmt.Errorf("%w: rank 0 does not listen: %w", ErrRendezvous, err)
		}
		j.link = newLink(conn)
		sent, err := j.proveMyself(ctx, at)
		if sent {
			proofs++
		}
		return !errors.Is(err, ErrGone) || proofs == proofsMax, err
	})
}

// proveMyself authenticates this rank to the server, and verifies that the server knows the secret
// of the job. The result "sent" of proveMyself is false if this rank's proof has certainly not
// reached the server, and true if the proof might have reached the server.
func (j *Job) proveMyself(ctx context.Context, at meeting) (sent bool, err error) {
	m, err := j.link.ask(ctx, j.cfg.Timeout, "", "challenge")
	if err != nil {
		return false, err
	}
	theirs, _ := m.Get("nonce")
	mine := rand.Text()
	line := fmt.Sprintf("cmd=initack pmiid=%d nonce=%s proof=%s", j.rank, mine,
		at.proof(fmt.Sprint("rank ", j.rank), theirs, mine))
	if m, err = j.link.ask(ctx, j.cfg.Timeout, line, "initack"); err != nil {
		return true, err
	}
	proof, _ := m.Get("proof")
	if !hmac.Equal([]byte(proof), []byte(at.proof("server", theirs, mine))) {
		err := fmt.Errorf("%w: who listens there does not know the secret of this job", ErrRendezvous)
		j.link.close(err)
		return true, err
	}
	return true, nil
}
