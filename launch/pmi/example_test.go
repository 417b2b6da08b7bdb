package pmi_test

import (
	"errors"
	"fmt"
	"log"

	"gobtl/launch/pmi"
)

// A Server answers the lines of its clients. The caller carries lines and answers.
func ExampleServer() {
	server, err := pmi.NewServer(pmi.Config{Size: 1, Name: "job-1"})
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range []string{
		"cmd=init pmi_version=1 pmi_subversion=1",
		"cmd=get_maxes",
	} {
		replies, err := server.Handle(0, []byte(line))
		if err != nil {
			log.Fatal(err)
		}
		for _, r := range replies {
			fmt.Print("rank ", r.Rank, ": ", r.Line)
		}
	}
	// Output:
	// rank 0: cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0
	// rank 0: cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024
}

// Parse reads a line of the protocol, as a client or a launcher gets it.
func ExampleParse() {
	message, err := pmi.Parse([]byte("cmd=get key=address"))
	if err != nil {
		log.Fatal(err)
	}
	key, ok := message.Get("key")
	fmt.Println(message.Cmd, key, ok)
	// Output: get address true
}

// A rank that gives up ends the whole job, with a code.
func ExampleAbortError() {
	server, err := pmi.NewServer(pmi.Config{Size: 1, Name: "job-1"})
	if err != nil {
		log.Fatal(err)
	}
	_, err = server.Handle(0, []byte("cmd=init pmi_version=1 pmi_subversion=1"))
	if err != nil {
		log.Fatal(err)
	}
	_, err = server.Handle(0, []byte("cmd=abort exitcode=3"))
	var abort *pmi.AbortError
	if errors.As(err, &abort) {
		fmt.Println("rank", abort.Rank, "has ended the job with", abort.Code)
	}
	// Output: rank 0 has ended the job with 3
}
