package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SyntaxError is the error for an invalid line of a script.
type SyntaxError struct {
	Line int
	Msg  string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("script:%d: %s", e.Line, e.Msg) }

// words is a line of a script, split into words and key=value pairs. The first error is stored, so
// that callers need not check each word.
type words struct {
	line int
	pos  []string
	keys []string
	vals map[string]string
	err  *SyntaxError
}

// comparisons lists words with "=" that are not pairs.
var comparisons = []string{"=", ">=", "<="}

func splitWords(line int, text string) *words {
	w := &words{line: line, vals: map[string]string{}}
	for _, f := range strings.Fields(text) {
		if strings.HasPrefix(f, "#") {
			break
		}
		key, val, ok := strings.Cut(f, "=")
		switch {
		case !ok || slices.Contains(comparisons, f):
			w.pos = append(w.pos, f)
		case key == "" || val == "":
			w.fail("%q is neither a word nor key=value", f)
		case w.vals[key] != "":
			w.fail("%s is given twice", key)
		default:
			w.keys = append(w.keys, key)
			w.vals[key] = val
		}
	}
	return w
}

func (w *words) fail(format string, args ...any) {
	if w.err == nil {
		w.err = &SyntaxError{Line: w.line, Msg: fmt.Sprintf(format, args...)}
	}
}

// peek returns the next word, or "" at the end.
func (w *words) peek() string {
	if len(w.pos) == 0 {
		return ""
	}
	return w.pos[0]
}

// The method next returns the next word, and the argument what describes a missing one.
func (w *words) next(what string) string {
	s := w.peek()
	if s == "" {
		w.fail("%s is missing", what)
		return ""
	}
	w.pos = w.pos[1:]
	return s
}

// accept takes the next word if it equals s.
func (w *words) accept(s string) bool {
	if w.peek() != s {
		return false
	}
	w.pos = w.pos[1:]
	return true
}

// oneOf takes the next word, which must be in list.
func (w *words) oneOf(what string, list ...string) string {
	s := w.next(what)
	if s != "" && !slices.Contains(list, s) {
		w.fail("%s %q is none of %s", what, s, strings.Join(list, ", "))
	}
	return s
}

// key returns the value of a pair, where the result ok is false if the pair is missing.
func (w *words) key(key string) (val string, ok bool) {
	val, ok = w.vals[key]
	if ok {
		delete(w.vals, key)
		w.keys = slices.DeleteFunc(w.keys, func(k string) bool { return k == key })
	}
	return val, ok
}

// The method number parses an integer within limits, decimal or with the prefix 0x.
func (w *words) number(what, s string, lo, hi int64) int64 {
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil || n < lo || n > hi {
		w.fail("%s %q must be a number, %d to %d", what, s, lo, hi)
		return lo
	}
	return n
}

func (w *words) nextNumber(what string, lo, hi int64) int64 {
	return w.number(what, w.next(what), lo, hi)
}

// keyNumber parses the number of a pair, or returns def if the pair is missing.
func (w *words) keyNumber(key string, def, lo, hi int64) int64 {
	if s, ok := w.key(key); ok {
		return w.number(key, s, lo, hi)
	}
	return def
}

// durationMax limits the durations of a script, because simulated keep-alives take real time.
const durationMax = time.Hour

func (w *words) duration(what, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > durationMax {
		w.fail("%s %q must be a duration, 0s to %v", what, s, durationMax)
		return 0
	}
	return d
}

func (w *words) nextDuration() time.Duration {
	const what = "a duration"
	return w.duration(what, w.next(what))
}

// keyDuration parses the duration of a pair, or returns 0 if the pair is missing.
func (w *words) keyDuration(key string) time.Duration {
	if s, ok := w.key(key); ok {
		return w.duration(key, s)
	}
	return 0
}

// keyShare parses the probability of a pair.
func (w *words) keyShare(key string) float64 {
	s, ok := w.key(key)
	if !ok {
		return 0
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= 1) {
		w.fail("%s %q must be 0 to 1", key, s)
		return 0
	}
	return f
}

// end returns an error if words are left.
func (w *words) end() {
	if s := w.peek(); s != "" {
		w.fail("unknown word %q", s)
	}
	if len(w.keys) > 0 {
		w.fail("unknown key %q", w.keys[0])
	}
}
