// Command btlrun starts the ranks of a parallel job, on this host or by a remote shell on others,
// and serves PMI-1 to them. It is for users without another launcher. See docs/launch.md.
//
//	cli.go, run.go   the command line
//	job/             the job as a whole
//	agent/           the ranks of one host
package main
