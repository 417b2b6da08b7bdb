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
	"time"

	"gobtl/internal/bounded"
)

// Exchange is a function that sends this side's identity to the peer and returns the peer's
// identity. An Exchange returns an error when ctx ends.
type Exchange func(ctx context.Context, mine Identity) (Identity, error)

// The method "other" returns the role of the peer, which is the opposite role.
func (r Role) other() Role {
	if r == RoleSender {
		return RoleReceiver
	}
	return RoleSender
}

// expect parses the identity of the peer, which must have the opposite role.
func expect(text string, mine Identity) (Identity, error) {
	id, err := ParseIdentity(text)
	if err == nil && id.Role != mine.Role.other() {
		err = fmt.Errorf("%w: that is a %v's, want the %v's", ErrIdentity, id.Role, mine.Role.other())
	}
	return id, err
}

// ExchangeStdIO exchanges identities by standard input and output, which a person or pipes connect
// to the peer. ExchangeStdIO writes this side's identity as one line to the argument "out", and
// reads the peer's identity as one line from the argument "in". A sender's ExchangeStdIO first
// writes and then reads. A receiver's ExchangeStdIO first reads and then writes, so that two
// programs that are joined by two pipes can exchange identities. If a line is not an identity,
// ExchangeStdIO reads the next line. ExchangeStdIO reads the lines on a separate goroutine. If ctx
// ends, the goroutine that reads the lines keeps running until the next line or the end of the
// input.
func ExchangeStdIO(in io.Reader, out io.Writer) Exchange {
	return func(ctx context.Context, mine Identity) (Identity, error) {
		tell := func() error {
			_, err := fmt.Fprintf(out, "identity of this %v: %v\n", mine.Role, mine)
			return err
		}
		if mine.Role == RoleSender {
			if err := tell(); err != nil {
				return Identity{}, fmt.Errorf("%w: %w", ErrExchange, inner(err))
			}
		}
		lines := bufio.NewScanner(io.LimitReader(in, 1<<20))
		for {
			if _, err := fmt.Fprintf(out, "identity of the %v? ", mine.Role.other()); err != nil {
				return Identity{}, fmt.Errorf("%w: %w", ErrExchange, inner(err))
			}
			line, err := readLine(ctx, lines)
			if err != nil {
				return Identity{}, err
			}
			if i := strings.Index(line, identityPrefix); i > 0 {
				line = line[i:] // the peer's whole line may contain words before the identity
			}
			id, err := expect(line, mine)
			if err == nil && mine.Role == RoleReceiver {
				if err := tell(); err != nil {
					return Identity{}, fmt.Errorf("%w: %w", ErrExchange, inner(err))
				}
			}
			if err == nil {
				return id, nil
			}
			if _, err := fmt.Fprintf(out, "%v\n", err); err != nil {
				return Identity{}, fmt.Errorf("%w: %w", ErrExchange, inner(err))
			}
		}
	}
}

// readLine reads a line. When ctx ends, readLine returns an error.
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
		got <- result{err: fmt.Errorf("%w: no identity of the peer: %w", ErrExchange, inner(err))}
	})
	select {
	case r := <-got:
		return r.line, r.err
	case <-ctx.Done():
		return "", fmt.Errorf("%w: no identity of the peer: %w", ErrTimeout, ctx.Err())
	}
}

// The constants below are the suffixes of the files of ExchangeFiles.
const (
	sendSuffix = ".send"
	recvSuffix = ".recv"
)

// ExchangeFiles exchanges identities by two files on a file system that both sides can access. If
// the argument of ExchangeFiles is "run", the sender writes the file "run.send", and the receiver
// writes the file "run.recv". ExchangeFiles writes each file under a temporary name, and renames
// the file. A file contains the identity of its writer and, as soon as the writer has read the
// peer's file, the peer's identity. Each side accepts the peer's file only if this file contains
// the accepting side's own identity. Files of earlier runs are therefore not accepted.
// ExchangeFiles does not remove the files, and the next run replaces them.
func ExchangeFiles(name string) Exchange {
	return func(ctx context.Context, mine Identity) (Identity, error) {
		own, other := name+sendSuffix, name+recvSuffix
		if mine.Role == RoleReceiver {
			own, other = other, own
		}
		stale, wrong := false, error(nil)
		for echo := ""; ; {
			if err := WriteFileWhole(own, []byte(mine.String()+"\n"+echo+"\n")); err != nil {
				return Identity{}, fmt.Errorf("%w: %w", ErrExchange, inner(err))
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
						return Identity{}, fmt.Errorf("%w: %s: %w", ErrExchange, other, inner(err))
					}
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
						return Identity{}, fmt.Errorf("%w: %w: %w", ErrTimeout, inner(wrong), err)
					}
					return Identity{}, fmt.Errorf("%w: %s %s: %w", ErrTimeout, other, why, err)
				}
			}
		}
	}
}

// readExchange reads a file of ExchangeFiles. The results of readExchange are the identity of the
// file's writer, and the identity that the writer has read from the peer's file. readExchange
// returns an error if the file has a wrong format.
func readExchange(name string) (writer, seen string, err error) {
	b, err := bounded.ReadFile(name, 4*identityTextMax)
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrFile, err)
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) != 3 {
		return "", "", fmt.Errorf("%w: %s is not two lines", ErrFile, name)
	}
	return lines[0], lines[1], nil
}

// WriteFileWhole writes a file under a temporary name, and renames the file. Other processes never
// see a partial file, and a crash or a full disk leaves no partial file under the final name.
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
		err = f.Sync() // without Sync a crash could keep the name and lose the data
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

// pauseTime is the interval between two checks of a file for the peer's identity.
const pauseTime = 20 * time.Millisecond
