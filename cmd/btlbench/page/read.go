package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/measure"
)

// Run is a report read from a file.
type Run struct {
	Number    int // on the page, from 1 on
	Name      string
	Schema    string    `json:"schema"`
	Version   string    `json:"version"`
	Command   string    `json:"command"`
	StartedAt time.Time `json:"started_at"`
	Sides     struct {
		Client layers.SideFacts `json:"client"`
	} `json:"sides"`
	Runs []measure.RunRecord `json:"runs"`
}

// Shared reports whether other threads used the CPUs of a side during the run.
func (r *Run) Shared() bool {
	return slices.ContainsFunc(r.Runs, func(one measure.RunRecord) bool {
		return one.Waits.Client.Crowded+one.Waits.Server.Crowded > 0
	})
}

// short returns the name of the run in legends: the name of its file without the ending, and in any
// case short.
func (r *Run) short() string {
	const most = 16
	name := []rune(strings.TrimSuffix(r.Name, filepath.Ext(r.Name)))
	if len(name) > most {
		name = append(name[:most-3], []rune("...")...)
	}
	return fmt.Sprintf("%d %s", r.Number, string(name))
}

// fileBytesMax is the maximum size of a report file.
const fileBytesMax = 512 << 20

// Read reads a report, which is the document of --format json or the lines of --json-stream.
func Read(name string, from io.Reader) (*Run, error) {
	text, err := io.ReadAll(io.LimitReader(from, fileBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(text) > fileBytesMax {
		return nil, fmt.Errorf("%s: larger than %d bytes", name, fileBytesMax)
	}
	r := &Run{Name: filepath.Base(name)}
	d := json.NewDecoder(bytes.NewReader(text))
	for {
		var line struct {
			Event string          `json:"event"`
			Data  json.RawMessage `json:"data"`
		}
		begin := d.InputOffset()
		err := d.Decode(&line)
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s has no report of btlbench: write one with --format json or "+
				"--json-stream", name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not JSON: %w", name, err)
		}
		switch line.Event {
		case "":
			line.Data = text[begin:d.InputOffset()]
		case "end":
		default:
			continue
		}
		if err := json.Unmarshal(line.Data, r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if r.Schema != measure.Schema {
			return nil, fmt.Errorf("%s has the schema %q, not %q of btlbench pair and run", name, r.Schema,
				measure.Schema)
		}
		return r, nil
	}
}
