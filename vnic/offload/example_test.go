package offload_test

import (
	"encoding/binary"
	"fmt"
	"log"

	"gobtl/vnic/offload"
)

// datagram returns an Ethernet frame with an IPv4 packet of UDP.
func datagram(payloadBytes int) []byte {
	const ethernet, ip, udp = 14, 20, 8
	frame := make([]byte, ethernet+ip+udp+payloadBytes)
	binary.BigEndian.PutUint16(frame[12:], 0x0800)
	frame[14] = 0x45
	binary.BigEndian.PutUint16(frame[16:], uint16(ip+udp+payloadBytes))
	frame[20] = 0x40              // no fragments
	frame[22], frame[23] = 64, 17 // hops, UDP
	copy(frame[26:], []byte{192, 0, 2, 1, 192, 0, 2, 2})
	binary.BigEndian.PutUint16(frame[34:], 4000)
	binary.BigEndian.PutUint16(frame[36:], 4000)
	binary.BigEndian.PutUint16(frame[38:], uint16(udp+payloadBytes))
	return frame
}

// A Splitter makes frames that fit the network of the large frame that a device has given. A Joiner
// does the opposite for frames that arrive.
func Example() {
	large := offload.Header{
		Flags: offload.NeedsChecksum, Type: offload.UDP4, HeaderLen: 42, Size: 1000,
		ChecksumStart: 34, ChecksumOffset: 6,
	}
	var splitter offload.Splitter
	if err := splitter.Begin(datagram(2500), large); err != nil {
		log.Fatal(err)
	}
	joiner := offload.Joiner{Emit: func(frame *offload.Joined) {
		fmt.Println(frame.Frames, "frames with", frame.Header.Size, "bytes each, the last with less")
	}}
	for i := range splitter.Count() {
		segment := make([]byte, splitter.Largest())
		joiner.Add(segment[:splitter.Write(segment, i)])
	}
	joiner.Flush()
	// Output: 3 frames with 1000 bytes each, the last with less
}
