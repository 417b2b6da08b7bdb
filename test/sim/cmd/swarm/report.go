package main

import (
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/test/sim/attacker"
	"gobtl/test/sim/swarm"
)

// The function report writes what has occurred in the runs.
func report(out io.Writer, r *swarm.Result, took, slow time.Duration, worst uint64) {
	t := table.NewWriter()
	t.SetOutputMirror(out)
	t.SetStyle(table.StyleLight)
	row := func(what string, n any) { t.AppendRow(table.Row{what, n}) }
	row("seeds", r.Runs)
	row("packets", r.Packets)
	row("messages accepted", r.Messages)
	row("messages delivered", r.Delivered)
	row("sends ended with an error", r.Failed)
	row("messages between tainted pairs", r.Unjudged)
	row("connections", r.Connected)
	row("  that had to succeed", r.SureConnects)
	row("dead peers that had to be noticed in time", r.DeadJudged)
	row("restarts", r.Restarts)
	row("virtual time", r.Virtual.Round(time.Millisecond))
	row("longest drain", r.Drained.Round(time.Millisecond))
	row("  of its limit at most", fmt.Sprintf("%.0f %%", 100*r.Share))
	row("wall time", took.Round(time.Millisecond))
	if r.Packets > 0 {
		row("processor time per packet, about", took/time.Duration(max(1, r.Packets))*2)
	}
	row("slowest seed", worst)
	row("  it took", slow.Round(time.Millisecond))
	t.AppendSeparator()
	for i, n := range r.Wraps {
		row("wraps of "+swarm.WrapNames[i], n)
	}
	for i, n := range r.Ops {
		row(swarm.OpNames[i], n)
	}
	for i, n := range r.Packs {
		row(swarm.PackNames[i], n)
	}
	for _, c := range []btl.Counter{
		btl.CntRetransmitTimeout, btl.CntRetransmitDupAck, btl.CntRetransmitNack, btl.CntRetransmitLost,
		btl.CntRetransmitProbe, btl.CntSpurious, btl.CntThrottled, btl.CntSentNack,
		btl.CntDupAcks, btl.CntDuplicate, btl.CntBelowWindow, btl.CntAboveWindow, btl.CntEarly,
		btl.CntDropReassembly, btl.CntDropMalformed, btl.CntDropConn, btl.CntDropHandshake,
		btl.CntFastReceives, btl.CntSendsPacked, btl.CntRecvPack, btl.CntRecordsDropped,
		btl.CntLanded, btl.CntLandedPut, btl.CntLoneAnswers,
	} {
		row(c.String(), r.Stats.Get(c))
	}
	t.AppendSeparator()
	for k := range sim.NumKinds {
		row("network: "+k.String(), r.Counts[k])
	}
	t.AppendSeparator()
	for k, n := range r.Incidents {
		row("incident: "+swarm.IncidentKind(k).String(), n)
	}
	for m, n := range r.Attacks {
		row("attack packets: "+attacker.Mode(m).String(), n)
	}
	t.Render()
}
