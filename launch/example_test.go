package launch_test

import (
	"context"
	"fmt"
	"log"

	"gobtl/launch"
)

// Each rank tells its value, and gets the values of all ranks. Without a launcher a program is a
// job of one rank.
func ExampleJob() {
	ctx := context.Background()
	job, err := launch.Join(ctx, launch.Config{})
	check(err)
	values, err := job.Exchange(ctx, "greeting", []byte("hello"))
	check(err)
	fmt.Printf("rank %d of %d: %s\n", job.Rank(), job.Size(), values[0])
	check(job.Finalize(ctx))
	// Output: rank 0 of 1: hello
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A program may ask which launcher has started it.
func ExampleLauncher() {
	ctx := context.Background()
	job, err := launch.Join(ctx, launch.Config{})
	check(err)
	fmt.Println("without a launcher:", job.Launcher() == launch.None)
	check(job.Finalize(ctx))
	// Output: without a launcher: true
}
