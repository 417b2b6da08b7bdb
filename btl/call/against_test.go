package call

import "testing"

// A client whose acknowledgements are late can begin a further stream after two streams whose
// answers exceed 1 MiB together: only the bytes beyond 1 MiB count towards AnswerBytes.
func TestLateAcknowledgements(t *testing.T) {
	const second = 128 << 10
	for _, c := range []struct {
		name string
		load load
		want int64
	}{
		{"one answer", load{answerBytes: 9 << 20, unacked: 1, unackedBytes: 9 << 20}, 0},
		{"one stream", load{
			answerBytes: unackedFree, unacked: streamWindow, unackedBytes: unackedFree,
		}, 0},
		{"two streams", load{
			answerBytes: unackedFree + second, unacked: 9, unackedBytes: unackedFree + second,
		}, second},
		{"an answer that was not sent", load{
			answerBytes: unackedFree + 2*second, unacked: 9, unackedBytes: unackedFree + second,
		}, 2 * second},
	} {
		if got := (&caller{load: c.load}).against(); got != c.want {
			t.Errorf("%s: %d bytes count, want %d", c.name, got, c.want)
		}
	}
}
