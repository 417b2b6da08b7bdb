//go:build unix

package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"gobtl/internal/testenv"
	"gobtl/launch/pmi"
)

// ompiEnvs are the environments of the ranks of a job of mpirun on one node.
func ompiEnvs(t *testing.T, size int, more ...string) (envs [][]string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ompi") //nolint:usetesting // A socket's path must be short.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for rank := range size {
		envs = append(envs, append([]string{
			"OMPI_COMM_WORLD_RANK=" + strconv.Itoa(rank), "OMPI_COMM_WORLD_SIZE=" + strconv.Itoa(size),
			"OMPI_COMM_WORLD_LOCAL_SIZE=" + strconv.Itoa(size), "PMIX_NAMESPACE=4711",
			"OMPI_MCA_orte_precondition_transports=0123-4567", "PMIX_SERVER_TMPDIR=" + dir,
		}, more...))
	}
	return envs
}

// port returns an address that nobody has at the moment.
func port(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestRendezvous(t *testing.T) {
	seed := testenv.Seed(t, 0)
	for _, envs := range [][][]string{
		ompiEnvs(t, 1), ompiEnvs(t, strangersMax+2), ompiEnvs(t, 4, RendezvousVariable+"="+port(t)),
	} {
		all(t, envs, func(j *Job) error {
			if j.Launcher() != OpenMPI || j.Nodes() != 1 || j.LocalRank() != j.Rank() {
				return fmt.Errorf("%+v", j)
			}
			return exchangeAll(seed)(j)
		})
	}
}

// Of two jobs at a time each finds its own rank 0.
func TestRendezvousOfTwoJobs(t *testing.T) {
	envs := ompiEnvs(t, 2)
	other := ompiEnvs(t, 2)
	for rank := range other { // the same directory
		other[rank] = append(other[rank], envs[rank][5], "PMIX_NAMESPACE=4712")
	}
	t.Run("jobs", func(t *testing.T) {
		for _, envs := range [][][]string{envs, other} {
			t.Run("job", func(t *testing.T) {
				t.Parallel()
				all(t, envs, exchangeAll(1))
			})
		}
	})
}

// Who does not know the secret is told nothing, on either side, and does not disturb the job.
func TestRendezvousOfStrangers(t *testing.T) {
	address := port(t)
	envs := ompiEnvs(t, 2, RendezvousVariable+"="+address)
	strange := append(envs[1], KeyVariable+"=another")
	ready := make(chan struct{})
	go func() {
		defer close(ready)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := Join(ctx, Config{Environ: strange})
		if !errors.Is(err, ErrGone) {
			t.Errorf("a stranger among the ranks: %v", err)
		}
	}()
	first := make(chan error, 1)
	go func() {
		j, err := Join(t.Context(), Config{Environ: envs[0]})
		if err == nil {
			err = j.Finalize(t.Context())
		}
		first <- err
	}()
	<-ready
	j, err := Join(t.Context(), Config{Environ: envs[1]})
	if err == nil {
		err = j.Finalize(t.Context())
	}
	if err := errors.Join(err, <-first); err != nil {
		t.Error("the job beside a stranger:", err)
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0") // somebody else's rank 0
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			fmt.Fprint(conn, "cmd=challenge nonce=x\ncmd=initack rc=0 proof=guessed\n")
			_, _ = conn.Read(make([]byte, 1))
			conn.Close()
		}
	}()
	envs = ompiEnvs(t, 2, RendezvousVariable+"="+listener.Addr().String())
	if _, err := Join(t.Context(), Config{Environ: envs[1]}); !errors.Is(err, ErrRendezvous) {
		t.Error("a rank 0 that does not know the secret:", err)
	}
}

// When a rank ends without Finalize, or aborts, the others hear of it.
func TestRendezvousOfTheDead(t *testing.T) {
	for _, abort := range []bool{false, true} {
		waits := make(chan struct{}) // closed when rank 0 waits for the others
		all(t, ompiEnvs(t, 3), func(j *Job) error {
			ctx := context.Background()
			if err := j.Fence(ctx); err != nil {
				return err
			}
			if j.Rank() == 0 {
				go func() {
					finished := 0
					for finished == 0 {
						j.meet.lock.Lock()
						finished = j.meet.server.Finished()
						j.meet.lock.Unlock()
						time.Sleep(time.Millisecond)
					}
					close(waits)
				}()
			} else {
				<-waits
			}
			if j.Rank() == 2 {
				if abort {
					// The Fence of rank 1 can have ended the job already.
					if err := j.Abort(ctx, 3); !errors.Is(err, ErrGone) {
						return err
					}
					return nil
				}
				j.close(ErrFinalized)
				return nil
			}
			var err error
			if j.Rank() == 1 {
				err = j.Fence(ctx)
			} else { // It waits for the others.
				err = j.Finalize(ctx)
			}
			if !errors.Is(err, ErrGone) {
				return fmt.Errorf("instead of its death: %w", err)
			}
			j.close(ErrFinalized)
			return nil
		})
	}
}

// Where there is no rank 0, or no way to it, the others say so.
func TestRendezvousMissing(t *testing.T) {
	is := func(what string, env []string, wants ...error) {
		t.Helper()
		_, err := Join(t.Context(), Config{Environ: env, Timeout: 30 * time.Millisecond})
		for _, want := range wants {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
	}
	envs := ompiEnvs(t, 2)
	is("no directory", envs[1], ErrTimeout, fs.ErrNotExist)
	is("nobody at the port", append(envs[1], RendezvousVariable+"="+port(t)), ErrTimeout,
		ErrRendezvous)
	is("two nodes", append(envs[1], "OMPI_COMM_WORLD_LOCAL_SIZE=1"), ErrRendezvous)
	is("no secret", append(envs[1], RendezvousVariable+"=127.0.0.1:1",
		"OMPI_MCA_orte_precondition_transports="), ErrRendezvous)
	at, err := readEnvironment(envs[0]).meeting(2)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(at.address)
	if err := os.Mkdir(dir, 0o755); err != nil { // as a stranger may have made it
		t.Fatal(err)
	}
	is("a directory for others, for rank 0", envs[0], ErrRendezvous)
	is("a directory for others, for rank 1", envs[1], ErrRendezvous)
	_, err = Join(t.Context(), Config{Environ: envs[1], Timeout: 30 * time.Millisecond})
	if errors.Is(err, ErrTimeout) {
		t.Error("it looks for rank 0 where others may be:", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	is("no socket", envs[1], ErrTimeout, ErrRendezvous)
}

// Strangers that connect and say nothing, many more than there are places, hold up a rank for a
// moment only.
func TestRendezvousFull(t *testing.T) {
	address := port(t)
	envs := ompiEnvs(t, 2, RendezvousVariable+"="+address)
	first := make(chan error, 1)
	go func() {
		j, err := Join(t.Context(), Config{Environ: envs[0], Timeout: 8 * time.Second})
		if err == nil {
			err = j.Finalize(t.Context())
		}
		first <- err
	}()
	for idle := 0; idle < 20*strangersMax; {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			time.Sleep(time.Millisecond) // Rank 0 does not listen yet.
			continue
		}
		defer conn.Close()
		idle++
	}
	j, err := Join(t.Context(), Config{Environ: envs[1], Timeout: 5 * time.Second})
	if err == nil {
		err = j.Finalize(t.Context())
	}
	if err := errors.Join(err, <-first); err != nil {
		t.Error(err)
	}
}

// Rank 0 takes no place of a stranger: it joins its own job although its listener accepts nobody.
func TestRankZeroNeedsNoListener(t *testing.T) {
	at := meeting{network: "tcp", address: "127.0.0.1:0", name: "job"}
	for _, over := range []bool{false, true} {
		r, err := openRendezvous(at, 2, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.listener.Close()
		if over {
			r.lock.Lock()
			r.fail(ErrGone)
			r.lock.Unlock()
		}
		j := &Job{meet: r, cfg: Config{Timeout: 5 * time.Second}}
		if err := j.reachOwn(t.Context()); over != errors.Is(err, ErrGone) || !over && err != nil {
			t.Errorf("the job has ended: %v, the error is %v", over, err)
		}
		j.link.close(nil)
		r.close()
	}
}

// failing is a listener whose first Accept fails.
type failing struct {
	net.Listener
	failed bool
}

func (f *failing) Accept() (net.Conn, error) {
	if !f.failed {
		f.failed = true
		return nil, syscall.EMFILE
	}
	return f.Listener.Accept()
}

// A process that has no descriptors for a moment goes on to listen.
func TestRendezvousAcceptFails(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := meeting{network: "tcp", address: listener.Addr().String(), name: "job", secret: []byte("s")}
	r := newRendezvous(at, nil, 1, time.Minute, &failing{Listener: listener})
	defer r.close()
	conn, err := net.Dial("tcp", at.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Errorf("nobody has asked for a proof: %v", err)
	}
}

// mute is a listener of connections whose writes after the first one fail, as after a reset.
type mute struct{ net.Listener }

type muteConn struct {
	net.Conn
	writes int
}

func (m mute) Accept() (net.Conn, error) {
	conn, err := m.Listener.Accept()
	return &muteConn{Conn: conn}, err
}

func (c *muteConn) Write(b []byte) (int, error) {
	if c.writes++; c.writes > 1 {
		return 0, syscall.EPIPE
	}
	return c.Conn.Write(b)
}

// TestRendezvousReplyFails: the connection of a rank breaks before the rank has its reply. The rank
// keeps no place, and the others hear of its death.
func TestRendezvousReplyFails(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := meeting{network: "tcp", address: listener.Addr().String(), name: "job", secret: []byte("s")}
	server, err := pmi.NewServer(pmi.Config{Size: 2, Name: "job"})
	if err != nil {
		t.Fatal(err)
	}
	r := newRendezvous(at, server, 2, time.Minute, mute{listener})
	defer r.close()
	conn, err := net.Dial("tcp", at.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var nonce string
	if _, err := fmt.Fscanf(conn, "cmd=challenge nonce=%s\n", &nonce); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "cmd=initack pmiid=1 nonce=n proof=%s\n", at.proof("rank 1", nonce, "n"))
	if err := r.wait(t.Context(), 20*time.Second); !errors.Is(err, ErrGone) {
		t.Errorf("the others hear %v, want ErrGone", err)
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.outs[1] != nil {
		t.Error("the rank keeps its place")
	}
}
