package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
)

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:]); err != nil {
		log.Fatal("ucx: ", err)
	}
}

// errUsage: the arguments are wrong.
var errUsage = errors.New("want hello_world or client_server, and flags")

// run is the program with its arguments.
func run(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	var o options
	f := flag.NewFlagSet("ucx "+args[0], flag.ExitOnError)
	f.StringVar(&o.transport, "t", "udp", "transport: udp or shm")
	f.IntVar(&o.port, "p", 13337, "port of the server; 0 is any, which it prints")
	f.IntVar(&o.size, "s", 16, "bytes of a message, or of each of its pieces")
	memory := f.String("m", "host", "memory of messages: host is all there is")
	six := f.Bool("6", false, "IPv6 where no address is given")
	var do func(*options) error
	switch args[0] {
	case "hello_world":
		do = hello
		f.StringVar(&o.server, "n", "", "the server's address; without it this is the server")
		f.BoolVar(&o.sleep, "w", false, "sleep until something happens")
		f.BoolVar(&o.sleep, "f", false, "the same")
		f.Bool("b", true, "poll until something happens, unless -w or -f says otherwise")
		f.StringVar(&o.fail, "e", "", "die before sending (send: the server), before receiving (recv: "+
			"the client), or while nothing is under way (keepalive: the server)")
		f.BoolVar(&o.print, "c", false, "print the configuration")
	case "client_server":
		do = clientServer
		f.StringVar(&o.server, "a", "", "the server's address; without it this is the server")
		f.StringVar(&o.listen, "l", "", "the address at which the server listens")
		f.StringVar(&o.how, "c", "stream", "stream, tag or am (active messages)")
		f.IntVar(&o.count, "i", 1, "how many messages")
		f.IntVar(&o.pieces, "v", 1, "how many pieces each has")
	default:
		return errUsage
	}
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if *memory != "host" {
		return fmt.Errorf("%w: memory %q", errUsage, *memory)
	}
	if o.listen == "" {
		o.listen = "127.0.0.1"
		if *six {
			o.listen = "::1"
		}
	}
	if f.NArg() > 0 || o.size < 1 || o.size > sizeMost || o.count < 0 || o.pieces < 0 ||
		o.pieces > piecesMost {
		return fmt.Errorf("%w: see -h", errUsage)
	}
	return do(&o)
}

// The most of what flags say.
const (
	sizeMost   = 1 << 28 // bytes
	piecesMost = 1 << 10
)

// options are the values of the flags.
type options struct {
	transport, server, listen, how, fail string
	port, size, count, pieces            int
	sleep, print                         bool
}

// died is the exit status of a side that dies on purpose.
const died = 3

// die ends the process at once if it is to die here.
func die(o *options, where string) {
	if o.fail == where {
		os.Exit(died)
	}
}
