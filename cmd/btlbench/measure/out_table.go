package measure

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/term"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/report"
)

// writeTable writes the report as text, with a line for each side and a table for each test.
func writeTable(w io.Writer, d *Document) error {
	client, server := &d.Sides.Client, &d.Sides.Server
	p := &client.Provider
	head := fmt.Sprintf("%s (%s), domain %s; %s\n", p.Provider, p.Version, p.Domain,
		pinText(client.Host.PinnedCPU, server.Host.PinnedCPU))
	if reason := d.Config.ProviderReason; reason != "" {
		head += "network: " + p.Provider + " (" + reason + ")\n"
	}
	head += fmt.Sprintf("%s, Linux %s, %s\n", client.Host.CPUModel, client.Host.Kernel,
		client.Host.Go)
	for _, name := range []string{plan.LayerRaw, plan.LayerBTL, plan.LayerRunner} {
		if f, ok := client.Layers[name]; ok {
			head += layerLine(name, &f)
		}
	}
	if d.Config.Impair != "" {
		head += "faults on both sides: " + d.Config.Impair + "\n"
	}
	head += "\n" + legend(d)
	if _, err := io.WriteString(w, head); err != nil {
		return err
	}
	for _, test := range d.Config.Test {
		runs := slices.DeleteFunc(slices.Clone(d.Runs), func(r RunRecord) bool { return r.Test != test })
		if len(runs) > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
			writeTestTable(w, test, runs, d)
			if d.Verbose {
				if err := writeDetails(w, runs); err != nil {
					return err
				}
			}
		}
	}
	if _, err := io.WriteString(w, crowdedText(d)); err != nil {
		return err
	}
	return writeSkipped(w, d.Skipped)
}

// crowdedText says what to try if other programs have used the CPUs of a side that never sleeps.
func crowdedText(d *Document) string {
	crowded := slices.ContainsFunc(d.Runs, func(r RunRecord) bool {
		return r.Waits.Client.Crowded+r.Waits.Server.Crowded > 0
	})
	if !crowded || d.Config.Wait != "busy" {
		return ""
	}
	return "\nOther threads used these CPUs. --wait adaptive or other --cpus may be much faster.\n"
}

// legend explains the columns, in lines of at most 80 columns.
func legend(d *Document) string {
	text := "Times: us, half round trips. MB: 1000000 bytes.\n"
	if d.Config.Rounds > 1 {
		text = fmt.Sprintf("Times: us, half round trips of all %d rounds. Others: medians. MB: 10^6 B.\n",
			d.Config.Rounds)
	}
	some := func(has func(*RunRecord) bool) bool {
		return slices.ContainsFunc(d.Runs, func(r RunRecord) bool { return has(&r) })
	}
	if some(func(r *RunRecord) bool { return r.RatioToRaw != nil }) {
		text += "btl/raw: p50 or rate by that of raw above. by round: median of each round's.\n"
	}
	if some(func(r *RunRecord) bool { return r.RatioToIdle != nil }) {
		text += "p50/idle: p50 by that of idle above. by round: median of each round's.\n"
	}
	if some(func(r *RunRecord) bool { return r.SegmentsSent > 0 }) {
		text += "resent: packets sent again, as no ACK came in time. dup: came twice, not lost.\n"
	}
	return text
}

// writeSkipped writes the measurements that were left out, with a line for each test, layer and
// reason.
func writeSkipped(w io.Writer, skipped []skipRecord) error {
	for len(skipped) > 0 {
		first := skipped[0]
		var sizes []string
		for j := range skipped {
			s := &skipped[j]
			if s.Test == first.Test && s.Layer == first.Layer && s.Reason == first.Reason {
				sizes = append(sizes, plan.SizeText(s.SizeBytes))
			}
		}
		if _, err := fmt.Fprintf(w, "left out: %s (%s) of %s: %s\n", first.Test, first.Layer,
			strings.Join(sizes, ", "), first.Reason); err != nil {
			return err
		}
		skipped = slices.DeleteFunc(slices.Clone(skipped), func(s skipRecord) bool {
			return s.Test == first.Test && s.Layer == first.Layer && s.Reason == first.Reason
		})
	}
	return nil
}

// pinText says to which CPUs the client and the server are pinned.
func pinText(client, server int) string {
	if client < 0 && server < 0 {
		return "not pinned"
	}
	return fmt.Sprintf("pinned to CPU %s and %s", cpuText(client), cpuText(server))
}

func cpuText(cpu int) string {
	if cpu < 0 {
		return "none"
	}
	return strconv.Itoa(cpu)
}

func layerLine(name string, f *layers.Facts) string {
	line := fmt.Sprintf("%s: datagrams of %d B, receive buffer: at least %d datagrams", name,
		f.MTUBytes, f.RecvCapacity)
	if f.RecvBufferBytes > 0 {
		line += fmt.Sprintf(" (%d KiB)", f.RecvBufferBytes>>10)
	}
	if f.Profile != "" {
		line += ", profile " + f.Profile
	}
	return line + "\n"
}

// writeTestTable writes the runs of one test. On a narrow terminal, the least important columns are
// left out.
func writeTestTable(w io.Writer, test string, runs []RunRecord, d *Document) {
	title := plan.Title(test)
	if test == plan.TestLatLoad {
		title = fmt.Sprintf(title, d.Config.LoadSize)
	}
	limit := terminalColumns(w)
	rendered, dropped := fitTable(columns(test, runs, d.Config.Verify), runs, limit)
	_, _ = io.WriteString(w, title+"\n"+rendered+droppedText(dropped, limit)) // As table.Render.
}

// droppedText names the omitted columns, in lines of at most limit characters.
func droppedText(dropped []string, limit int) string {
	if len(dropped) == 0 {
		return ""
	}
	text, line := "", "(no room here for:"
	for i, name := range dropped {
		word := name + ","
		if i == len(dropped)-1 {
			word = name + ")"
		}
		if len(line)+1+len(word) > limit {
			text, line = text+line+"\n", ""
		}
		line += " " + word
	}
	return text + line + "\n"
}

// fitTable renders a table within the given number of columns of characters, where 0 means any
// number, and names the omitted columns.
func fitTable(list []column, runs []RunRecord, limit int) (rendered string, dropped []string) {
	for {
		rendered = renderTable(list, runs)
		spare := sparest(list)
		if limit == 0 || spare < 0 || report.Columns(rendered) <= limit {
			return rendered, dropped
		}
		dropped = append(dropped, list[spare].name)
		list = slices.Delete(list, spare, spare+1)
	}
}

// renderTable formats columns as a table.
func renderTable(list []column, runs []RunRecord) string {
	t := report.Table{Heads: make([][]string, 1), Rows: make([][]string, len(runs))}
	for i, c := range list {
		t.Heads[0] = append(t.Heads[0], c.name)
		if c.left {
			t.Left = append(t.Left, i)
		}
		for j := range runs {
			t.Rows[j] = append(t.Rows[j], c.value(&runs[j]))
		}
	}
	return t.String()
}

// terminalColumns is the width of the terminal w, or 0 if w is no terminal.
func terminalColumns(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// sparest is the index of the least important column, or -1 if all columns must be shown.
func sparest(list []column) int {
	found := -1
	for i := range list {
		if list[i].spare > 0 && (found < 0 || list[i].spare > list[found].spare) {
			found = i
		}
	}
	return found
}
