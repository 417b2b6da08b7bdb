package vnic

// Counter identifies one counter of a port.
type Counter uint8

// The counters of a port. The counters of Omni-Path's summary and error attributes come first, in
// the order of the attributes. The counter RxFIFO and all counters after it are specific to this
// implementation.
const (
	TxErrors Counter = iota
	RxErrors
	TxPackets
	RxPackets
	TxBytes // counts 4 bytes of FCS per frame, as do the size classes
	RxBytes

	TxUnicast
	TxGroup
	TxUntagged
	TxVLAN
	Tx64
	Tx65
	Tx128
	Tx256
	Tx512
	Tx1024
	Tx1519

	RxUnicast
	RxGroup
	RxUntagged
	RxVLAN
	Rx64
	Rx65
	Rx128
	Rx256
	Rx512
	Rx1024
	Rx1519

	TxSMACFilter
	TxDLIDZero
	TxLogic
	TxDropState
	RxBadVESW
	RxRunt
	RxOversize
	RxEthDown
	RxDropState
	RxLogic

	RxFIFO // no buffer, or the device did not take the frame
	TxFIFO
	TxCarrier
	RxMalformed
	RxForged
	RxNotMember
	RxBadPKey
	RxBadDLID
	TxNoPeer
	TxSelf
	TxStorm
	TxOversize
	TxSuppressed
	FDBRefused
	RxFECN // packets that met congestion (FECN)
	RxBECN // packets with BECN: congestion on the way back

	numCounters
)

// counterNames are the names of the counters. A counter of Omni-Path has the same name as in the
// output of "ethtool -S" for an Omni-Path VNIC device.
var counterNames = [numCounters]string{
	TxErrors: "tx_errors", RxErrors: "rx_errors",
	TxPackets: "tx_packets", RxPackets: "rx_packets", TxBytes: "tx_bytes", RxBytes: "rx_bytes",
	TxUnicast: "tx_unicast", TxGroup: "tx_mcastbcast", TxUntagged: "tx_untagged", TxVLAN: "tx_vlan",
	Tx64: "tx_64_size", Tx65: "tx_65_127", Tx128: "tx_128_255", Tx256: "tx_256_511",
	Tx512: "tx_512_1023", Tx1024: "tx_1024_1518", Tx1519: "tx_1519_max",
	RxUnicast: "rx_unicast", RxGroup: "rx_mcastbcast", RxUntagged: "rx_untagged", RxVLAN: "rx_vlan",
	Rx64: "rx_64_size", Rx65: "rx_65_127", Rx128: "rx_128_255", Rx256: "rx_256_511",
	Rx512: "rx_512_1023", Rx1024: "rx_1024_1518", Rx1519: "rx_1519_max",
	TxSMACFilter: "tx_smac_filt", TxDLIDZero: "tx_dlid_zero", TxLogic: "tx_logic",
	TxDropState: "tx_drop_state", RxBadVESW: "rx_bad_veswid", RxRunt: "rx_runt",
	RxOversize: "rx_oversize", RxEthDown: "rx_eth_down", RxDropState: "rx_drop_state",
	RxLogic: "rx_logic", RxFIFO: "rx_fifo_errors", TxFIFO: "tx_fifo_errors",
	TxCarrier: "tx_carrier_errors", RxMalformed: "rx_malformed", RxForged: "rx_forged",
	RxNotMember: "rx_not_member", RxBadPKey: "rx_bad_pkey", RxBadDLID: "rx_bad_dlid",
	TxNoPeer: "tx_no_peer", TxSelf: "tx_self", TxStorm: "tx_storm_limited",
	TxOversize: "tx_oversize", TxSuppressed: "tx_suppressed", FDBRefused: "fdb_refused",
	RxFECN: "rx_fecn", RxBECN: "rx_becn",
}

func (c Counter) String() string {
	if c >= numCounters {
		return "unknown"
	}
	return counterNames[c]
}

// Counters lists all counters in ascending order.
func Counters() []Counter {
	all := make([]Counter, numCounters)
	for i := range all {
		all[i] = Counter(i)
	}
	return all
}

// Counts holds the values of all counters of a port, or of one Egress or Ingress of a port.
type Counts [numCounters]uint64

func (c *Counts) countCongestion(h *Header) {
	if h.FECN {
		c[RxFECN]++
	}
	if h.BECN {
		c[RxBECN]++
	}
}

// Add adds the counts o to c.
func (c *Counts) Add(o *Counts) {
	for i := range c {
		c[i] += o[i]
	}
}

const fcsBytes = 4

// sizeClass returns the index of a frame's size class, from 0 (frames of 64 bytes) to 6 (the
// largest frames). The argument "wireBytes" of sizeClass includes the FCS.
func sizeClass(wireBytes int) Counter {
	switch {
	case wireBytes <= 64:
		return 0
	case wireBytes <= 127:
		return 1
	case wireBytes <= 255:
		return 2
	case wireBytes <= 511:
		return 3
	case wireBytes <= 1023:
		return 4
	case wireBytes <= 1518:
		return 5
	}
	return 6
}

// CountTx counts n sent frames of frameBytes bytes each.
func (c *Counts) CountTx(i *FrameInfo, frameBytes, n int) {
	c.count(i, frameBytes, n, TxPackets, TxBytes, TxUnicast, Tx64)
}

// CountRx counts n delivered frames of frameBytes bytes each.
func (c *Counts) CountRx(i *FrameInfo, frameBytes, n int) {
	c.count(i, frameBytes, n, RxPackets, RxBytes, RxUnicast, Rx64)
}

// The method "count" adds n frames to the counters of sent frames or to the counters of received
// frames, which the arguments select. The argument "cast" of the method "count" is the first of
// four consecutive counters, for unicast, group, untagged and tagged frames. The argument "size" of
// the method "count" is the first of several consecutive counters, one for each class of frame
// sizes.
func (c *Counts) count(i *FrameInfo, frameBytes, n int, packets, bytes, cast, size Counter) {
	wire := max(frameBytes, FrameBytesMin) + fcsBytes
	c[packets] += uint64(n)
	c[bytes] += uint64(n) * uint64(wire)
	if i.Dst.Group() {
		c[cast+1] += uint64(n)
	} else {
		c[cast] += uint64(n)
	}
	if i.Tagged {
		c[cast+3] += uint64(n)
	} else {
		c[cast+2] += uint64(n)
	}
	c[size+sizeClass(wire)] += uint64(n)
}

// DropTx counts a dropped frame from the device, both in the counter "reason" and in TxErrors.
func (c *Counts) DropTx(reason Counter) {
	c[reason]++
	c[TxErrors]++
}

// DropRx counts a dropped frame from the fabric, both in the counter "reason" and in RxErrors.
func (c *Counts) DropRx(reason Counter) {
	c[reason]++
	c[RxErrors]++
}
