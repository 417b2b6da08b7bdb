// Package mpi is a message passing interface for parallel jobs, MPI's model in Go: ranks,
// communicators, messages that are matched by source and tag, requests. It stands on pml and btl;
// launch tells who is who.
//
//	world, err := mpi.Init(ctx, mpi.Config{})       // with a provider imported: _ "gobtl/fabric/udp"
//	if world.Rank() == 0 {
//		err = mpi.Send(ctx, &world.Comm, []float64{1, 2, 3}, 1, 7)
//	} else {
//		status, err = mpi.Recv(ctx, &world.Comm, data, mpi.AnySource, 7)
//	}
//	err = world.Finalize(ctx)
//
// A message is a slice of values without pointers: numbers, arrays and structs of them; generics
// stand where MPI has datatypes. Errors are values. A call that may wait takes a context,
// and refuses a nil one: ErrContext.
//
// Any goroutine may call anything at any time, but for a Request, which belongs to one at a time.
// Whoever waits drives the engine:
//
//	Send, Recv, Wait                   Isend, Irecv, Test            helper, a goroutine
//	  |  begin; not done?                |  begin                      |  nobody has made a pass for
//	  v                                  v                             v  some milliseconds?
//	drive: pass after pass until it    return                        sleep until something comes,
//	is done; poll, yield or sleep                                    then a pass
//	(internal/waiting)
//	  |  somebody drives already: sleep until it is done, or the driver leaves
//
// So there is no other goroutine on the way of a message; and a rank that computes for minutes
// answers its peers, as long as Go may use one more thread than those that compute.
//
// The tag of a message on its way has the communicator's context above the user's tag:
//
//	63       44 43        25   24    23        0
//	 maker's    its count   inner    user's tag
//	 rank
//
// inner is 1 for what the library itself sends in that communicator. Who is rank 0 of a new
// communicator makes its context, so no two have the same.
package mpi
