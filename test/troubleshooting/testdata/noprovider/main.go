// Command noprovider imports no provider, and therefore finds none.
package main

import (
	"fmt"

	"gobtl/fabric"
)

func main() {
	_, err := fabric.GetInfo(fabric.Hints{})
	fmt.Println(err)
}
