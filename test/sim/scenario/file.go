package scenario

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// File is a scenario file.
type File struct {
	Title  string // first line of the comment
	Rule   string // what it pins: the line that begins with "Rule:", and those below it
	Script string
	Trace  string // the golden one
}

// ParseFile reads a scenario file.
func ParseFile(data []byte) (*File, error) {
	ar := txtar.Parse(data)
	f := &File{}
	head, rule, ok := strings.Cut(string(ar.Comment), "\nRule:")
	f.Title, _, _ = strings.Cut(head, "\n")
	f.Rule = strings.TrimSpace(rule)
	if strings.TrimSpace(f.Title) == "" || !ok || f.Rule == "" {
		return nil, fmt.Errorf("scenario: no title, or no line that begins with Rule")
	}
	for _, s := range ar.Files {
		switch s.Name {
		case "script":
			f.Script = string(s.Data)
		case "trace":
			f.Trace = string(s.Data)
		default:
			return nil, fmt.Errorf("scenario: unknown section %q", s.Name)
		}
	}
	return f, nil
}

// WithTrace returns the bytes of a file with another trace.
func WithTrace(data []byte, trace string) []byte {
	ar := txtar.Parse(data)
	for i := range ar.Files {
		if ar.Files[i].Name == "trace" {
			ar.Files[i].Data = []byte(trace)
			return txtar.Format(ar)
		}
	}
	ar.Files = append(ar.Files, txtar.File{Name: "trace", Data: []byte(trace)})
	return txtar.Format(ar)
}

// Run runs the file's script. Run returns the trace, and an error for an invalid script, an
// unfulfilled condition, or a trace that differs from the golden trace.
func (f *File) Run() (trace string, err error) {
	s, err := Parse(f.Script)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := s.Run(&out); err != nil {
		return out.String(), err
	}
	return out.String(), Compare(f.Trace, out.String())
}

// Compare describes the first difference of two traces.
func Compare(golden, got string) error {
	if golden == got {
		return nil
	}
	want, have := strings.Split(golden, "\n"), strings.Split(got, "\n")
	i := 0
	for i < len(want) && i < len(have) && want[i] == have[i] {
		i++
	}
	return fmt.Errorf("trace differs from the golden one in line %d:\nwant %s\ngot  %s\n"+
		"(go test ./test/sim/scenario -rewrite accepts it)", i+1, line(want, i), line(have, i))
}

func line(lines []string, i int) string {
	if i < len(lines) && (i < len(lines)-1 || lines[i] != "") {
		return lines[i]
	}
	return "nothing"
}
