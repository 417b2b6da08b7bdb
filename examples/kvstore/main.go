package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// valueBytesMax bounds a value.
const valueBytesMax = 4 << 20

func main() {
	member := flag.Int("member", -1, "be this member, until standard input ends")
	members := flag.Int("members", 3, "how many members there are")
	dir := flag.String("dir", "", "where members tell their names")
	keys := flag.Int("keys", 40, "how many values the demonstration keeps")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	if *member >= 0 {
		err = runMember(*member, *members, *dir)
	} else {
		err = demonstrate(ctx, os.Stdout, *members, *keys)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// demonstrate starts members and has them die.
func demonstrate(ctx context.Context, out io.Writer, members, keys int) (err error) {
	dir, err := os.MkdirTemp("", "kvstore-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // What stays are names in the temporary directory.
	d := &demo{ctx: ctx, out: out, dir: dir, values: map[string][]byte{}}
	defer d.killAll()
	for i := range members {
		if err := d.start(i, members); err != nil {
			return err
		}
	}
	if d.store, err = openStore(dir, members); err != nil {
		return err
	}
	defer func() {
		if e := d.store.close(ctx); err == nil {
			err = e
		}
	}()
	return d.run(members, keys)
}

// demo is a demonstration under way.
type demo struct {
	ctx    context.Context //nolint:containedctx // It is the lifetime of the demonstration.
	out    io.Writer
	dir    string
	procs  map[int]*exec.Cmd
	store  *store
	values map[string][]byte // what the store should have
}

func (d *demo) run(members, keys int) error {
	for i := range keys {
		if err := d.put("key"+strconv.Itoa(i), i); err != nil {
			return err
		}
	}
	if err := d.readAll("all members"); err != nil {
		return err
	}
	d.kill(0)
	if err := d.readAll("without member 0"); err != nil {
		return err
	}
	for i := 0; i < keys; i += 3 {
		if err := d.put("key"+strconv.Itoa(i), i+1); err != nil {
			return err
		}
	}
	if err := d.start(0, members); err != nil {
		return err
	}
	if err := d.store.awaitSync(d.ctx, 0); err != nil {
		return err
	}
	d.kill(1)
	return d.readAll("member 0 is back, without member 1")
}

// put gives a key a value: the smaller i, the shorter, but for one that is as long as can be.
func (d *demo) put(key string, i int) error {
	size := 1 << (i % 20)
	if i%20 == 19 {
		size = valueBytesMax
	}
	value := make([]byte, size)
	rng := rand.New(rand.NewPCG(uint64(i), 7))
	for at := range value {
		value[at] = byte(rng.Uint32())
	}
	d.values[key] = value
	return d.store.put(d.ctx, key, value)
}

// readAll reads all values twice, and compares: the second time their places are known.
func (d *demo) readAll(when string) error {
	before := d.store.asked
	for range 2 {
		for key, want := range d.values {
			got, err := d.store.get(d.ctx, key)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", when, key, err)
			}
			if !bytes.Equal(got, want) {
				return fmt.Errorf("%s: %s: %d bytes, and not those that were put", when, key, len(got))
			}
		}
	}
	_, err := fmt.Fprintf(d.out, "%s: %d values read, members asked %d times\n", when,
		2*len(d.values), d.store.asked-before)
	return err
}

// start starts a member. It ends with its standard input, which is a pipe of this process.
func (d *demo) start(i, members int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "-member", strconv.Itoa(i), "-members", strconv.Itoa(members),
		"-dir", d.dir)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if d.procs == nil {
		d.procs = map[int]*exec.Cmd{}
	}
	d.procs[i] = cmd
	return nil
}

func (d *demo) kill(i int) {
	if cmd := d.procs[i]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed, so never nil
		delete(d.procs, i)
	}
}

func (d *demo) killAll() {
	for i := range d.procs {
		d.kill(i)
	}
}
