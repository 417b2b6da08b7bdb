package mpi_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"gobtl/mpi"
)

// ranks runs a job of several ranks, of which each is a goroutine here. A program has one rank, and
// gets its world from Init.
func ranks(size int, program func(ctx context.Context, world *mpi.World)) {
	ctx, all := context.Background(), &room{size: size, perNod: size}
	var group sync.WaitGroup
	for rank := range size {
		group.Go(func() {
			var cfg mpi.Config
			cfg.Fabric.Provider, cfg.Fabric.Node = "udp", "127.0.0.1"
			world, err := mpi.Open(ctx, seat{all, rank}, cfg)
			check(err)
			program(ctx, world)
			check(world.Finalize(ctx))
		})
	}
	group.Wait()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Rank 0 sends numbers to rank 1.
func ExampleSend() {
	ranks(2, func(ctx context.Context, world *mpi.World) {
		const tag = 7
		if world.Rank() == 0 {
			check(mpi.Send(ctx, &world.Comm, []float64{1.5, 2.5}, 1, tag))
			return
		}
		numbers := make([]float64, 2)
		status, err := mpi.Recv(ctx, &world.Comm, numbers, 0, tag)
		check(err)
		fmt.Println(numbers, "from rank", status.Source)
	})
	// Output: [1.5 2.5] from rank 0
}

// A Request is a send or a receive under way.
func ExampleRequest() {
	ranks(2, func(ctx context.Context, world *mpi.World) {
		other, number := 1-world.Rank(), make([]int64, 1)
		var send, receive mpi.Request
		check(mpi.Irecv(&receive, &world.Comm, number, other, 0))
		check(mpi.Isend(&send, &world.Comm, []int64{int64(10 + world.Rank())}, other, 0))
		check(mpi.WaitAll(ctx, nil, &send, &receive))
		if world.Rank() == 0 {
			fmt.Println(number[0])
		}
	})
	// Output: 11
}

// All ranks get the sum of their values.
func ExampleAllreduce() {
	ranks(4, func(ctx context.Context, world *mpi.World) {
		sum := make([]int, 1)
		check(mpi.Allreduce(ctx, &world.Comm, []int{world.Rank() + 1}, sum, mpi.Sum[int]()))
		if world.Rank() == 0 {
			fmt.Println(sum[0])
		}
	})
	// Output: 10
}

// Ranks with the same colour get a communicator of their own.
func ExampleComm_Split() {
	ranks(4, func(ctx context.Context, world *mpi.World) {
		comm, err := world.Split(ctx, world.Rank()%2, 0)
		check(err)
		if world.Rank() == 3 {
			fmt.Println("rank", comm.Rank(), "of", comm.Size())
		}
		comm.Free()
	})
	// Output: rank 1 of 2
}

// A Window is memory that the other ranks read and write.
func ExampleWindow() {
	ranks(2, func(ctx context.Context, world *mpi.World) {
		memory := make([]int32, 4)
		window, err := mpi.NewWindow(ctx, &world.Comm, memory)
		check(err)
		if world.Rank() == 1 {
			check(window.Put(ctx, []int32{5, 6}, 0, 2))
		}
		check(window.Fence(ctx))
		if world.Rank() == 0 {
			fmt.Println(memory)
		}
		check(window.Free(ctx))
	})
	// Output: [0 0 5 6]
}

// A program without a launcher is a job of one rank.
func ExampleWorld() {
	ctx := context.Background()
	var cfg mpi.Config
	cfg.Fabric.Provider, cfg.Fabric.Node = "udp", "127.0.0.1"
	world, err := mpi.Init(ctx, cfg)
	check(err)
	fmt.Println("rank", world.Rank(), "of", world.Size())
	check(world.Finalize(ctx))
	// Output: rank 0 of 1
}

// A Layout names values that do not lie side by side, here a column of a matrix.
func ExampleLayout() {
	ranks(2, func(ctx context.Context, world *mpi.World) {
		if world.Rank() == 0 {
			matrix := []int32{
				1, 2, 3,
				4, 5, 6,
			}
			column, err := mpi.Strided(matrix[1:], 2, 1, 3) // 2 blocks of 1 value, 3 values apart
			check(err)
			check(column.Send(ctx, &world.Comm, 1, 0))
			return
		}
		values := make([]int32, 2)
		_, err := mpi.Recv(ctx, &world.Comm, values, 0, 0)
		check(err)
		fmt.Println(values)
	})
	// Output: [2 5]
}

// A Group is a set of ranks. All ranks of the group make a communicator of it.
func ExampleGroup() {
	ranks(4, func(ctx context.Context, world *mpi.World) {
		ends, err := world.Group().Incl(0, 3)
		check(err)
		comm, err := world.Create(ctx, ends) // nil at ranks outside of the group
		check(err)
		if world.Rank() == 3 {
			fmt.Println("rank", comm.Rank(), "of", comm.Size())
		}
		if comm != nil {
			comm.Free()
		}
	})
	// Output: rank 1 of 2
}

// The ranks of a Cart form a grid, here a ring.
func ExampleCart() {
	ranks(4, func(ctx context.Context, world *mpi.World) {
		ring, err := mpi.NewCart(ctx, &world.Comm, []int{4}, []bool{true})
		check(err)
		from, to, err := ring.Shift(0, 1) // neighbours in dimension 0, one step away
		check(err)
		if ring.Rank() == 0 {
			fmt.Println("from", from, "to", to)
		}
		ring.Free()
	})
	// Output: from 3 to 1
}

// An Op combines values of any type, here the largest value and its place (MPI_MAXLOC).
func ExampleOp() {
	type place struct{ value, rank int64 }
	larger := mpi.NewOp(func(low, high place) place {
		if high.value > low.value {
			return high
		}
		return low
	}, false)
	ranks(3, func(ctx context.Context, world *mpi.World) {
		own := []place{{value: []int64{4, 9, 2}[world.Rank()], rank: int64(world.Rank())}}
		best := make([]place, 1)
		check(mpi.Allreduce(ctx, &world.Comm, own, best, larger))
		if world.Rank() == 0 {
			fmt.Println(best[0].value, "at rank", best[0].rank)
		}
	})
	// Output: 9 at rank 1
}

// A Message that Mprobe has found is received by Mrecv alone, with memory of its size.
func ExampleMessage() {
	ranks(2, func(ctx context.Context, world *mpi.World) {
		if world.Rank() == 0 {
			check(mpi.Send(ctx, &world.Comm, []int16{1, 2, 3}, 1, 0))
			return
		}
		message, status, err := mpi.Mprobe(ctx, &world.Comm, mpi.AnySource, mpi.AnyTag)
		check(err)
		numbers := make([]int16, status.Count/2)
		_, err = mpi.Mrecv(ctx, message, numbers)
		check(err)
		fmt.Println(numbers)
	})
	// Output: [1 2 3]
}

// A Span names ranks at equal distances. Two groups have the same ranks in the same order, the same
// ranks in another order, or other ranks.
func ExampleSpan() {
	ranks(4, func(_ context.Context, world *mpi.World) {
		if world.Rank() != 0 {
			return
		}
		up, err := world.Group().InclSpans(mpi.Span{First: 0, Last: 2, Stride: 2})
		check(err)
		down, err := world.Group().InclSpans(mpi.Span{First: 2, Last: 0, Stride: -2})
		check(err)
		fmt.Println(up.Compare(down) == mpi.Similar, world.Network().Provider)
	})
	// Output: true udp
}
