package emfile_test

import (
	"fmt"
	"log"

	"gobtl/vnic/emfile"
)

// The file of a manager names its hosts and its switches.
func ExampleParse() {
	file, err := emfile.Parse([]byte(`
name = "lab"
[[host]]
name = "a"
lid = 1
[[switch]]
name = "blue"
id = 5
[[switch.port]]
host = "a"
`))
	if err != nil {
		log.Fatal(err)
	}
	for _, sw := range file.Plan.Switches {
		fmt.Println(file.Name, "has switch", sw.Name, "with", len(sw.Ports), "port")
	}
	_, err = emfile.Parse([]byte(`nam = "lab"`))
	fmt.Println(err)
	// Output:
	// lab has switch blue with 1 port
	// manager's file: unknown key nam
}
