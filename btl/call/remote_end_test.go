package call

import (
	"context"
	"errors"
	"testing"
)

// A server that reports the end of the handler's context does not make its caller believe that the
// caller's context has ended.
func TestRemoteEnd(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for st, remote := range map[status]error{
		statusEnded: context.Canceled, statusLate: context.DeadlineExceeded,
	} {
		err := st.err(t.Context(), nil)
		var text RemoteError
		if errors.Is(err, remote) || !errors.As(err, &text) || string(text) != remote.Error() {
			t.Errorf("status %d while the context has not ended: %v", st, err)
		}
		if err := st.err(canceled, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("status %d of a cancelled call: %v", st, err)
		}
	}
}
