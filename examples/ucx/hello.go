package main

import (
	"errors"
	"fmt"

	"gobtl/pml"
)

// Tags of hello_world.
const (
	tagReady uint64 = 1 // of the client, that it may be told the text
	tagText  uint64 = 2
	tagEver  uint64 = 3 // that nobody sends
	tagHeard uint64 = 4 // of the client, which goes when the server knows that
)

// hello is hello_world: the server tells its client a text.
func hello(o *options) (err error) {
	switch o.fail {
	case "", "send", "recv", "keepalive":
	default:
		return fmt.Errorf("%w: -e %q", errUsage, o.fail)
	}
	if o.print {
		fmt.Printf("transport %s, port %d, %d bytes, sleeps %v\n", o.transport, o.port, o.size, o.sleep)
	}
	w, err := meetByLayer(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if o.server == "" {
		err = w.tell(o)
	} else {
		err = w.listen(o)
	}
	if o.fail != "" && errors.Is(err, pml.ErrPeer) {
		fmt.Println("the other side has failed:", err)
		return nil
	}
	return err
}

// tell is the server's side.
func (w *worker) tell(o *options) error {
	if _, err := w.recv(tagReady, nil); err != nil {
		return err
	}
	die(o, "send")
	die(o, "keepalive")
	text := make([]byte, o.size)
	copy(text, "Hello, world!")
	if err := w.send(tagText, text); err != nil {
		return err
	}
	_, err := w.recv(tagHeard, nil)
	return err
}

// listen is the client's side.
func (w *worker) listen(o *options) error {
	if err := w.send(tagReady, nil); err != nil {
		return err
	}
	die(o, "recv")
	if o.fail == "keepalive" {
		_, err := w.recv(tagEver, nil) // Nothing of this side's is under way.
		return err
	}
	text := make([]byte, o.size)
	n, err := w.recv(tagText, text)
	if err != nil {
		return err
	}
	fmt.Printf("%d bytes: %.13s\n", n, text)
	return w.send(tagHeard, nil)
}
