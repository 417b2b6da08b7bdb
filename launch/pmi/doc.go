// Package pmi implements PMI-1, the protocol by which the processes of a parallel job find each
// other through their launcher. It has the line format, the map from ranks to nodes, and a sans-I/O
// server.
//
// Each line is a list of pairs, of which the first is the command; no value has a space in it:
//
//	client                                         server
//	cmd=init pmi_version=1 pmi_subversion=1   -->
//	                                          <--  cmd=response_to_init ... rc=0
//	cmd=get_maxes                             -->
//	                                          <--  cmd=maxes kvsname_max=256 keylen_max=64 ...
//	cmd=get_my_kvsname                        -->
//	                                          <--  cmd=my_kvsname kvsname=NAME
//	cmd=put kvsname=NAME key=K value=V        -->
//	                                          <--  cmd=put_result rc=0 msg=success
//	cmd=barrier_in                            -->       all ranks are in
//	                                          <--  cmd=barrier_out
//	cmd=get kvsname=NAME key=K                -->
//	                                          <--  cmd=get_result rc=0 msg=success value=V
//	cmd=finalize                              -->
//	                                          <--  cmd=finalize_ack
//	cmd=abort exitcode=N                      -->       the job is over
//
// Package launch is the client. The servers are launchers, among them btlrun, and package launch
// itself under a launcher without PMI-1. A Server belongs to one goroutine. All other functions are
// pure.
package pmi
