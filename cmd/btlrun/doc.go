// Command btlrun starts the ranks of a parallel job, and serves PMI-1 to the ranks. The ranks run
// on this host, or on other hosts through a remote shell. btlrun is for users without another
// launcher, and docs/launch.md describes it.
//
//	cli.go, run.go   the command line
//	job/             the job as a whole
//	agent/           the ranks of one host
package main
