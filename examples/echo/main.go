// Command echo embeds the transport: without arguments it prints its name and echoes what peers
// send; with a name and a text it sends the text there and prints what comes back.
//
//	echo                 # prints NAME
//	echo NAME 'a text'   # in another process
package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	_ "gobtl/fabric/ofi" // the providers that this program can use
)

const tagText btl.Tag = 1

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "ofi/udp", Node: "127.0.0.1"})
	if err != nil {
		return err
	}
	var cfg btl.Config // the zero value is a good default
	dcfg, err := cfg.DomainConfig(infos[0])
	if err != nil {
		return err
	}
	domain, err := fabric.Open(infos[0], dcfg)
	if err != nil {
		return err
	}
	module, err := btl.Open(domain, cfg)
	if err != nil {
		return err
	}
	texts := make(chan string, 1)
	handler := func(ep *btl.Endpoint, tag btl.Tag, data []byte) { texts <- string(data) }
	if len(args) == 0 {
		handler = echo
		fmt.Println(hex.EncodeToString(module.Name()))
	}
	if err := module.Handle(tagText, handler); err != nil {
		return err
	}
	runner := btl.NewRunner(module, btl.RunnerConfig{}, nil)
	if len(args) == 0 {
		<-runner.Done()
		return runner.Err()
	}
	return talk(runner, args, texts)
}

// echo runs on the module's goroutine and may use it directly.
func echo(ep *btl.Endpoint, tag btl.Tag, data []byte) {
	if f, err := ep.Alloc(tag, len(data)); err == nil {
		copy(f.Bytes(), data)
		if _, err := ep.Send(f); err != nil {
			_ = ep.Free(f)
		}
	}
}

func talk(runner *btl.Runner, args []string, texts <-chan string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	name, err := hex.DecodeString(args[0])
	if err != nil || len(args) != 2 {
		return fmt.Errorf("usage: echo [NAME TEXT]")
	}
	peer, err := runner.Connect(ctx, name)
	if err != nil {
		return err
	}
	if err := runner.Send(ctx, peer, tagText, []byte(args[1])); err != nil {
		return err
	}
	fmt.Println(<-texts)
	return runner.Close(ctx)
}
