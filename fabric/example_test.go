package fabric_test

import (
	"fmt"

	"gobtl/fabric"
	_ "gobtl/fabric/mem" // a provider within the process
)

// A program asks the registry for the networks of the providers that it imports, and opens one.
func ExampleOpen() {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "mem/local"})
	if err != nil {
		fmt.Println(err)
		return
	}
	domain, err := fabric.Open(infos[0], fabric.DomainConfig{Buffers: 16})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer domain.Close()
	arena := domain.Arena()
	fmt.Println(domain.Info().Provider, "has", arena.Len(), "buffers")
	// Output: mem/local has 16 buffers
}
