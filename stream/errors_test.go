package stream

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestOnePrefix checks that the text of an error has the name of the package once, and that
// errors.Is still finds each error.
func TestOnePrefix(t *testing.T) {
	t.Parallel()
	mine := Identity{Role: RoleSender}
	_, foreign := expect("nonsense", mine)
	for _, tc := range []struct {
		err  error
		want string
		is   []error
	}{
		{
			failedError(&letter{Code: codeTaken, Reason: errTaken.Error()}),
			"stream: peer failed: taken: another peer was there first",
			[]error{ErrPeerFailed, ErrTaken},
		},
		{
			failedError(&letter{Reason: ErrMismatch.Error()}),
			"stream: peer failed: parameters do not fit",
			[]error{ErrPeerFailed},
		},
		{
			withLatest(ErrTimeout, fmt.Errorf("%w: %w", ErrMismatch, inner(ErrTaken))),
			"stream: time is over; the latest that came: parameters do not fit: taken",
			[]error{ErrTimeout, ErrMismatch, ErrTaken},
		},
		{
			fmt.Errorf("%w: %w", ErrExchange, inner(foreign)),
			`stream: identities not exchanged: malformed identity: "nonsense" does not begin with "`,
			[]error{ErrExchange, ErrIdentity},
		},
		{
			fmt.Errorf("%w: %s", ErrExchange, reasonOf(ErrMismatch.Error()+"\x1b")),
			"stream: identities not exchanged: parameters do not fit",
			[]error{ErrExchange},
		},
	} {
		if text := tc.err.Error(); !strings.HasPrefix(text, tc.want) {
			t.Errorf("%s\nwant %s", text, tc.want)
		}
		for _, is := range tc.is {
			if !errors.Is(tc.err, is) {
				t.Errorf("%v is not %v", tc.err, is)
			}
		}
	}
}

// TestExchangeOnePrefix exchanges identities with what is no stream.
func TestExchangeOnePrefix(t *testing.T) {
	t.Parallel()
	_, err := ExchangeStdIO(strings.NewReader(""), &strings.Builder{})(t.Context(), Identity{})
	if !errors.Is(err, ErrExchange) || strings.Count(err.Error(), "stream: ") != 1 {
		t.Errorf("%v", err)
	}
}
