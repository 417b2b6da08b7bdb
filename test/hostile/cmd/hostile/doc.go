// Command hostile measures honest programs beside malicious peers, with package layers. Each
// malicious peer runs in a process of its own. The output is one table. The command fails if an
// honest peer has ended, or has lost much more throughput than beside a process that only computes,
// for as much CPU time as the malicious peer has used.
package main
