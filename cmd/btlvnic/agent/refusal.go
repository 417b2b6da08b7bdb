//go:build linux

package agent

import (
	"fmt"

	"gobtl/internal/bounded"
	"gobtl/vnic"
)

// tellRefusal logs the reason why the manager does not accept this host, once for each new reason.
// A manager can change the reason as often as it likes, and the number of lines in a second is
// bounded.
func (a *Agent) tellRefusal() {
	text := a.refusal()
	if text != a.refused {
		a.untold = text != "" && !a.limitedf(&a.refusalLines, "%s", text)
	}
	a.refused = text
}

// tellAgain makes tellRefusal log the latest reason if the log does not have it. The control thread
// calls tellAgain every lookEvery.
func (a *Agent) tellAgain() {
	if a.untold {
		a.refused = ""
	}
}

// The method refusal returns the reason why the manager does not accept this host, or an empty
// string if the manager accepts the host.
func (a *Agent) refusal() string {
	switch status := a.core.Refused(); status {
	case vnic.StatusOK:
		return ""
	case vnic.StatusInvalid:
		return fmt.Sprintf("the manager does not know host %q: its file has no such [[host]] (--host)",
			a.cfg.Host)
	case vnic.StatusUnproven:
		return fmt.Sprintf("the manager sees host %q at another address than the one that it tells, or "+
			"its datagrams do not arrive there: give it the address that the manager sees (--node), and "+
			"let UDP through between the two", a.cfg.Host)
	case vnic.StatusVersion:
		return fmt.Sprintf("the manager proves the addresses of host %q in a way that this agent does "+
			"not know: give both the same version of btlvnic", a.cfg.Host)
	case vnic.StatusBusy:
		return fmt.Sprintf("the manager has another host %q, or one at the same addresses, connected "+
			"already; it is tried again", a.cfg.Host)
	default:
		return fmt.Sprintf("the manager refuses host %q: status %#x", a.cfg.Host, uint16(status))
	}
}

// limitedf logs an event that another host can cause as often as it likes. limitedf returns false
// if it has logged nothing, because the log has got too many lines in the present second.
func (a *Agent) limitedf(lines *bounded.Rate, format string, args ...any) bool {
	before, ok := lines.Allow()
	if ok {
		a.notef("%s%s", before, fmt.Sprintf(format, args...))
	}
	return ok
}

func (a *Agent) notef(format string, args ...any) {
	if a.cfg.Log != nil {
		a.cfg.Log(format, args...)
	}
}
