package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// An Exchange carries this side's identity to the peer and brings the peer's. It ends with ctx.
type Exchange func(ctx context.Context, mine Identity) (Identity, error)

// other is the role that the peer of a role has.
func (r Role) other() Role {
	if r == RoleSender {
		return RoleReceiver
	}
	return RoleSender
}

// expect parses the identity of the peer, which must have the other role.
func expect(text string, mine Identity) (Identity, error) {
	id, err := ParseIdentity(text)
	if err == nil && id.Role != mine.Role.other() {
		err = fmt.Errorf("%w: that is a %v's, want the %v's", ErrIdentity, id.Role, mine.Role.other())
	}
	return id, err
}

// ExchangeStdIO has a person, or a pipe, carry the identities: it writes this side's to out and
// reads the peer's from in, one line each. A sender writes first and then asks; a receiver asks
// first, so that two programs joined by two pipes meet either way round. A line that is no identity
// is asked for again, unless in ends. in is read by one goroutine, which lives until the next line.
func ExchangeStdIO(in io.Reader, out io.Writer) Exchange {
	return func(ctx context.Context, mine Identity) (Identity, error) {
		tell := func() error {
			_, err := fmt.Fprintf(out, "identity of this %v: %v\n", mine.Role, mine)
			return err
		}
		if mine.Role == RoleSender {
			if err := tell(); err != nil {
				return Identity{}, fmt.Errorf("%w: %w", ErrExchange, err)
			}
		}
		lines := bufio.NewScanner(io.LimitReader(in, 1<<20))
		for {
			if _, err := fmt.Fprintf(out, "identity of the %v? ", mine.Role.other()); err != nil {
				return Identity{}, fmt.Errorf("%w: %w", ErrExchange, err)
			}
			line, err := readLine(ctx, lines)
			if err != nil {
				return Identity{}, err
			}
			if i := strings.Index(line, identityPrefix); i > 0 {
				line = line[i:] // the whole line of the peer, with its words before
			}
			id, err := expect(line, mine)
			if err == nil && mine.Role == RoleReceiver {
				if err := tell(); err != nil {
					return Identity{}, fmt.Errorf("%w: %w", ErrExchange, err)
				}
			}
			if err == nil {
				return id, nil
			}
			if _, err := fmt.Fprintf(out, "%v\n", err); err != nil {
				return Identity{}, fmt.Errorf("%w: %w", ErrExchange, err)
			}
		}
	}
}

// readLine reads a line, or gives up with ctx.
func readLine(ctx context.Context, lines *bufio.Scanner) (string, error) {
	type result struct {
		line string
		err  error
	}
	got := make(chan result, 1)
	runAside(func() {
		if lines.Scan() {
			got <- result{line: lines.Text()}
			return
		}
		err := lines.Err()
		if err == nil {
			err = io.EOF
		}
		got <- result{err: fmt.Errorf("%w: no identity of the peer: %w", ErrExchange, err)}
	})
	select {
	case r := <-got:
		return r.line, r.err
	case <-ctx.Done():
		return "", fmt.Errorf("%w: no identity of the peer: %w", ErrTimeout, ctx.Err())
	}
}

// The suffixes of the files of ExchangeFiles.
const (
	sendSuffix = ".send"
	recvSuffix = ".recv"
)

// ExchangeFiles carries the identities by two files on a file system that both sides share: name
// with ".send", written by the sender, and with ".recv", written by the receiver. Each is written
// whole under another name and renamed. It names its writer and, once that has read it, the peer; a
// side takes a file only when that names it, so what an earlier run has left behind is never taken.
// The files stay; the next run replaces them.
func ExchangeFiles(name string) Exchange {
	return func(ctx context.Context, mine Identity) (Identity, error) {
		own, other := name+sendSuffix, name+recvSuffix
		if mine.Role == RoleReceiver {
			own, other = other, own
		}
		stale, wrong := false, error(nil)
		for echo := ""; ; {
			if err := WriteFileWhole(own, []byte(mine.String()+"\n"+echo+"\n")); err != nil {
				return Identity{}, fmt.Errorf("%w: %w", ErrExchange, err)
			}
			for {
				peer, theirs, e := readExchange(other)
				ok := e == nil
				if wrong = e; errors.Is(e, os.ErrNotExist) {
					wrong = nil
				}
				if ok && theirs == mine.String() {
					id, err := expect(peer, mine)
					if err != nil {
						return Identity{}, fmt.Errorf("%w: %s: %w", ErrExchange, other, err)
					}
					// The peer goes on when it has read that it was seen.
					return id, WriteFileWhole(own, []byte(mine.String()+"\n"+peer+"\n"))
				}
				stale = stale || ok
				if ok && peer != echo {
					echo = peer
					break
				}
				if err := pause(ctx); err != nil {
					why := "is not there"
					if stale {
						why = "is of another run, or its writer has gone"
					}
					if wrong != nil {
						return Identity{}, fmt.Errorf("%w: %w: %w", ErrTimeout, wrong, err)
					}
					return Identity{}, fmt.Errorf("%w: %s %s: %w", ErrTimeout, other, why, err)
				}
			}
		}
	}
}

// readExchange reads a file of ExchangeFiles: who wrote it, and whom that one has seen. The error
// is that of a file that is there and cannot be one.
func readExchange(name string) (writer, seen string, err error) {
	b, err := readSmall(name, 4*identityTextMax)
	if err != nil {
		return "", "", err
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) != 3 {
		return "", "", fmt.Errorf("%w: %s is not two lines", ErrFile, name)
	}
	return lines[0], lines[1], nil
}

// openRegular opens a file that others may have made for reading, without ever waiting: a pipe, a
// device, a directory is an error.
func openRegular(name string) (*os.File, os.FileInfo, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe may have no writer
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", name)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	return f, st, nil
}

// readSmall reads a regular file of at most most bytes.
func readSmall(name string, most int64) ([]byte, error) {
	f, _, err := openRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1)) // it may grow while it is read
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	return b, nil
}

// WriteFileWhole writes a file under another name and renames it, so that nobody ever sees a part
// of it, nor finds one after a crash or on a full disk.
func WriteFileWhole(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".part-*")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync() // else the new name may outlive a crash, and the data not
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%w: %w", ErrFile, err), os.Remove(f.Name()))
	}
	return nil
}

// pauseTime is between two looks at a file.
const pauseTime = 20 * time.Millisecond
