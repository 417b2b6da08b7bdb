package vnic

import "fmt"

// The constants below are the sizes of VeswportInfo and its two parts, in bytes.
const (
	veswInfoBytes = 152
	portInfoBytes = 128
	// VportInfoBytes is the size of VeswportInfo.
	VportInfoBytes = veswInfoBytes + portInfoBytes
)

// The states of a link in VportInfo.LinkStatus.
const (
	LinkUp   = 1
	LinkDown = 2
)

// VportInfo is Omni-Path's attribute VeswportInfo, the configuration of a port on its switch.
// Reserved fields are zero.
type VportInfo struct {
	FabricID    uint16               `json:"fabric_id"` // 10 bits
	VESW        uint16               `json:"vesw"`      // 12 bits
	DefPortMask uint16               `json:"def_port_mask"`
	PKey        uint16               `json:"pkey"`
	McastDLID   uint32               `json:"mcast_dlid"`
	UcastDLID   [DefaultPorts]uint32 `json:"ucast_dlid"`
	RC          uint32               `json:"rc"`
	EthMTU      uint16               `json:"eth_mtu"`

	PortNum       uint32   `json:"port_num"`
	LinkStatus    uint8    `json:"eth_link_status"`
	BaseMAC       MAC      `json:"-"`
	ConfigState   uint8    `json:"config_state"`
	OperState     uint8    `json:"oper_state"`
	MaxMACs       uint16   `json:"max_mac_tbl_ent"`
	MaxSourceMACs uint16   `json:"max_smac_ent"`
	MACDigest     uint32   `json:"mac_tbl_digest"`
	EncapSLID     uint32   `json:"encap_slid"`
	PCPToSCUni    [8]uint8 `json:"pcp_to_sc_uc"`
	PCPToVLUni    [8]uint8 `json:"pcp_to_vl_uc"`
	PCPToSCMulti  [8]uint8 `json:"pcp_to_sc_mc"`
	PCPToVLMulti  [8]uint8 `json:"pcp_to_vl_mc"`
	SCUni         uint8    `json:"non_vlan_sc_uc"`
	VLUni         uint8    `json:"non_vlan_vl_uc"`
	SCMulti       uint8    `json:"non_vlan_sc_mc"`
	VLMulti       uint8    `json:"non_vlan_vl_mc"`
	UniGen        uint16   `json:"uc_macs_gen_count"`
	MultiGen      uint16   `json:"mc_macs_gen_count"`
}

// PowerOn returns the VportInfo of a port that no manager has configured.
func PowerOn() VportInfo {
	return VportInfo{
		EthMTU: MTUDefault, LinkStatus: LinkDown, ConfigState: StateDropAll, OperState: StateDropAll,
		MaxMACs: MACEntriesMax, MaxSourceMACs: SourceMACsMax,
	}
}

// The constants below are values of a switch's MTU, which is the largest payload of an Ethernet
// frame in bytes.
const (
	MTUDefault = 1500
	MTUMin     = 68
	// MTUMax is FrameBytesMax without the Ethernet header and a VLAN tag.
	MTUMax = FrameBytesMax - ethBytes - vlanBytes
)

// Append appends the encoded VportInfo to the slice "out".
func (p *VportInfo) Append(out []byte) []byte {
	start := len(out)
	out = append(out, make([]byte, VportInfoBytes)...)
	b := out[start:]
	be.PutUint16(b, p.FabricID)
	be.PutUint16(b[2:], p.VESW)
	be.PutUint16(b[10:], p.DefPortMask)
	be.PutUint16(b[14:], p.PKey)
	be.PutUint32(b[20:], p.McastDLID)
	for i, d := range p.UcastDLID {
		be.PutUint32(b[24+4*i:], d)
	}
	be.PutUint32(b[88:], p.RC)
	be.PutUint16(b[148:], p.EthMTU)
	b = b[veswInfoBytes:]
	be.PutUint32(b, p.PortNum)
	b[4] = p.LinkStatus
	p.BaseMAC.Put(b[8:])
	b[14], b[15] = p.ConfigState, p.OperState
	be.PutUint16(b[16:], p.MaxMACs)
	be.PutUint16(b[18:], p.MaxSourceMACs)
	be.PutUint32(b[20:], p.MACDigest)
	be.PutUint32(b[28:], p.EncapSLID)
	copy(b[32:], p.PCPToSCUni[:])
	copy(b[40:], p.PCPToVLUni[:])
	copy(b[48:], p.PCPToSCMulti[:])
	copy(b[56:], p.PCPToVLMulti[:])
	b[64], b[65], b[66], b[67] = p.SCUni, p.VLUni, p.SCMulti, p.VLMulti
	be.PutUint16(b[116:], p.UniGen)
	be.PutUint16(b[118:], p.MultiGen)
	return out
}

// ParseVportInfo decodes the output of VportInfo.Append. ParseVportInfo returns ErrAttribute for a
// wrong size and for reserved bytes that are not zero. ParseVportInfo does not check the ranges of
// the fields, which the caller must check with Validate.
func ParseVportInfo(b []byte) (p VportInfo, err error) {
	if len(b) != VportInfoBytes {
		return p, fmt.Errorf("%w: port info of %d bytes", ErrAttribute, len(b))
	}
	whole := b
	p.FabricID, p.VESW = be.Uint16(b), be.Uint16(b[2:])
	p.DefPortMask, p.PKey = be.Uint16(b[10:]), be.Uint16(b[14:])
	p.McastDLID = be.Uint32(b[20:])
	for i := range p.UcastDLID {
		p.UcastDLID[i] = be.Uint32(b[24+4*i:])
	}
	p.RC, p.EthMTU = be.Uint32(b[88:]), be.Uint16(b[148:])
	b = b[veswInfoBytes:]
	p.PortNum, p.LinkStatus, p.BaseMAC = be.Uint32(b), b[4], MACOf(b[8:])
	p.ConfigState, p.OperState = b[14], b[15]
	p.MaxMACs, p.MaxSourceMACs = be.Uint16(b[16:]), be.Uint16(b[18:])
	p.MACDigest, p.EncapSLID = be.Uint32(b[20:]), be.Uint32(b[28:])
	copy(p.PCPToSCUni[:], b[32:])
	copy(p.PCPToVLUni[:], b[40:])
	copy(p.PCPToSCMulti[:], b[48:])
	copy(p.PCPToVLMulti[:], b[56:])
	p.SCUni, p.VLUni, p.SCMulti, p.VLMulti = b[64], b[65], b[66], b[67]
	p.UniGen, p.MultiGen = be.Uint16(b[116:]), be.Uint16(b[118:])
	if string(p.Append(nil)) != string(whole) {
		return p, fmt.Errorf("%w: reserved bytes of a port info are set", ErrAttribute)
	}
	return p, nil
}

// Validate returns an error that wraps ErrTable if a field is out of its range.
func (p *VportInfo) Validate() error {
	for _, v := range []struct {
		name      string
		v, lo, hi uint32
	}{
		{"fabric_id", uint32(p.FabricID), 0, 1<<10 - 1},
		{"vesw_id", uint32(p.VESW), 1, VESWMax},
		{"u_mcast_dlid", p.McastDLID, 0, LIDMax},
		{"eth_mtu", uint32(p.EthMTU), MTUMin, MTUMax},
		{"encap_slid", p.EncapSLID, 1, LIDMax},
		{"non_vlan_sc_uc", uint32(p.SCUni), 0, SCMax},
		{"non_vlan_sc_mc", uint32(p.SCMulti), 0, SCMax},
	} {
		if v.v < v.lo || v.v > v.hi {
			return fmt.Errorf("%w: %s is %d, want %d to %d", ErrTable, v.name, v.v, v.lo, v.hi)
		}
	}
	if p.ConfigState != StateDropAll && p.ConfigState != StateForwarding {
		return fmt.Errorf("%w: config_state is %d, want %d or %d", ErrTable, p.ConfigState, StateDropAll,
			StateForwarding)
	}
	if p.BaseMAC == 0 || p.BaseMAC.Group() {
		return fmt.Errorf("%w: base_mac %v is no address of one", ErrTable, p.BaseMAC)
	}
	for i := range p.PCPToSCUni {
		if p.PCPToSCUni[i] > SCMax || p.PCPToSCMulti[i] > SCMax {
			return fmt.Errorf("%w: service class of priority %d is above %d", ErrTable, i, SCMax)
		}
	}
	for _, d := range p.UcastDLID {
		if d > LIDMax {
			return fmt.Errorf("%w: u_ucast_dlid %d is above %d", ErrTable, d, LIDMax)
		}
	}
	return nil
}

func (p *VportInfo) rcOf(c RCClass) uint8 { return uint8(p.RC >> (4 * c) & RCMax) }
