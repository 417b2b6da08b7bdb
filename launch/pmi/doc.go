// Package pmi implements PMI-1, the protocol with which the processes of a parallel job exchange
// data through their launcher. Package pmi implements the line format, the mapping from ranks to
// nodes, and a server without I/O.
//
// Each line is a list of key=value pairs. The first pair of a line is the command. No value
// contains a space.
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
// Package launch is the client. Launchers such as btlrun are servers. If the launcher does not
// support PMI-1, package launch is the server at rank 0 and the client at every rank. Only one
// goroutine at a time may use a Server. The functions of package pmi have no state.
package pmi
