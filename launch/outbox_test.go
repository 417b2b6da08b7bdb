//go:build unix

package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// enterRaw connects as a rank by hand, and reads nothing after the challenge.
func enterRaw(t *testing.T, at meeting, rank int) net.Conn {
	t.Helper()
	var conn net.Conn
	err := again(t.Context(), 20*time.Second, func(ctx context.Context) (bool, error) {
		var err error
		conn, err = new(net.Dialer).DialContext(ctx, at.network, at.address)
		return err == nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	var nonce string
	if _, err := fmt.Fscanf(conn, "cmd=challenge nonce=%s\n", &nonce); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "cmd=initack pmiid=%d nonce=n proof=%s\n", rank,
		at.proof(fmt.Sprint("rank ", rank), nonce, "n"))
	return conn
}

// TestUnreadReplies: a rank asks again and again, and reads no replies. The other ranks go on to
// their end, and rank 0 learns which rank it was.
func TestUnreadReplies(t *testing.T) {
	envs := ompiEnvs(t, 3)
	cfg := func(rank int) Config { return Config{Environ: envs[rank], Timeout: 20 * time.Second} }
	jobs, errs := [2]*Job{}, make(chan error, 2)
	for rank := range jobs {
		go func() {
			var err error
			jobs[rank], err = Join(t.Context(), cfg(rank))
			errs <- err
		}()
	}
	at, err := readEnvironment(envs[2]).meeting(3)
	if err != nil {
		t.Fatal(err)
	}
	conn := enterRaw(t, at, 2)
	fmt.Fprintf(conn, "cmd=init pmi_version=1 pmi_subversion=1\ncmd=put kvsname=%s key=%s value=%s\n"+
		"cmd=barrier_in\n", at.name, piece(2, hostKey, 0), cut(HostName(), 512)[0])
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Fatal(err)
	}
	value := strings.Repeat("v", 900)
	_, err = fmt.Fprintf(conn, "cmd=put kvsname=%s key=k value=%s\n", at.name, value)
	for err == nil { // until its connection is closed
		_, err = io.WriteString(conn, "cmd=get kvsname="+at.name+" key=k\n")
	}
	if err := jobs[1].Put(t.Context(), "after", []byte("it")); err != nil {
		t.Error("rank 1 after it:", err)
	}
	if err := jobs[1].Finalize(t.Context()); err != nil {
		t.Error("rank 1 at its end:", err)
	}
	err = jobs[0].Finalize(t.Context())
	if !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "rank 2 does not read its replies") {
		t.Errorf("rank 0 learns %v", err)
	}
}
