package vnic_test

import (
	"bytes"
	"fmt"
	"log"

	"gobtl/vnic"
)

// An Ethernet frame travels inside of a packet, behind a Header.
func ExampleHeader() {
	frame := bytes.Repeat([]byte{0xaa}, 60)
	header := vnic.Header{SLID: 1, DLID: 2, VESW: 100}
	packet, err := header.Append(nil, frame)
	if err != nil {
		log.Fatal(err)
	}
	got, inside, err := vnic.Parse(packet)
	fmt.Println(len(packet), "bytes, switch", got.VESW, bytes.Equal(inside, frame), err)
	// Output: 88 bytes, switch 100 true <nil>
}

// A MAC address is a number.
func ExampleMAC() {
	mac, err := vnic.ParseMAC("02:00:00:00:00:2a")
	fmt.Println(mac, uint64(mac), err)
	// Output: 02:00:00:00:00:2a 2199023255594 <nil>
}
