-- A Wireshark dissector for btlvnic's encapsulation of Ethernet frames (docs/vnic.md), for Wireshark
-- 3.6 and later. README.md beside this file tells how to install and use it.

local vnic = Proto("gobtl_vnic", "gobtl virtual Ethernet")

local HEADER, TRAILER, FRAME_MIN, L4, TAIL_FLIT = 20, 5, 60, 0x78, 0x40

local f = vnic.fields
f.slid = ProtoField.uint32("gobtl_vnic.slid", "Sender's LID", base.DEC)
f.dlid = ProtoField.uint32("gobtl_vnic.dlid", "Receiver's LID", base.DEC)
f.length = ProtoField.uint32("gobtl_vnic.length", "Length, bytes", base.DEC)
f.sc = ProtoField.uint8("gobtl_vnic.sc", "Service class", base.DEC)
f.rc = ProtoField.uint8("gobtl_vnic.rc", "Routing control", base.DEC)
f.pkey = ProtoField.uint16("gobtl_vnic.pkey", "Partition", base.HEX)
f.entropy = ProtoField.uint16("gobtl_vnic.entropy", "Entropy", base.HEX)
f.fecn = ProtoField.bool("gobtl_vnic.fecn", "Has met congestion")
f.becn = ProtoField.bool("gobtl_vnic.becn", "Congestion on the way back")
f.switch = ProtoField.uint16("gobtl_vnic.switch", "Switch", base.DEC)
f.pad = ProtoField.uint8("gobtl_vnic.pad", "Padding, bytes", base.DEC)

local e_joined = ProtoExpert.new("gobtl_vnic.joined",
	"Several packets, cut or joined by the interface", expert.group.REASSEMBLE, expert.severity.CHAT)
vnic.experts = { e_joined }

local ethernet

-- bits of a little-endian dword at an offset.
local function bits(tvb, offset, from, count)
	return math.floor(tvb(offset, 4):le_uint() / 2 ^ from) % 2 ^ count
end

-- size of the packet that begins at an offset; nil if none does.
local function size(tvb, at)
	local left = tvb:len() - at
	if left < HEADER + TRAILER or bits(tvb, at + 4, 29, 3) ~= 6 or tvb(at + 8, 1):uint() ~= L4 then
		return nil
	end
	local n = bits(tvb, at, 20, 11) * 8
	if n < HEADER + TRAILER + FRAME_MIN or n > left
		or bits(tvb, at + 12, 16, 16) ~= 0 or bits(tvb, at + 16, 0, 16) ~= 0 then
		return nil
	end
	local pad = tvb(at + n - 1, 1):uint()
	if pad >= TAIL_FLIT then
		pad = pad - TAIL_FLIT
	end
	if pad > 7 or n - HEADER - TRAILER - pad < FRAME_MIN then
		return nil
	end
	return n, pad
end

-- valid says whether bytes are packets, one behind the other, and nothing else.
local function valid(tvb)
	local at = 0
	while at < tvb:len() do
		local n = size(tvb, at)
		if not n then
			return false
		end
		at = at + n
	end
	return at > 0
end

local function one(tvb, at, n, pad, pinfo, root)
	local tree = root:add(vnic, tvb(at, n))
	local slid = bits(tvb, at, 0, 20) + bits(tvb, at + 8, 8, 4) * 2 ^ 20
	local dlid = bits(tvb, at + 4, 0, 20) + bits(tvb, at + 8, 12, 4) * 2 ^ 20
	local switch = bits(tvb, at + 16, 16, 16)
	tree:add(f.slid, tvb(at, 12), slid)
	tree:add(f.dlid, tvb(at + 4, 8), dlid)
	tree:add(f.length, tvb(at, 4), n)
	tree:add(f.sc, tvb(at + 4, 4), bits(tvb, at + 4, 20, 5))
	tree:add(f.rc, tvb(at + 4, 4), bits(tvb, at + 4, 25, 3))
	tree:add(f.pkey, tvb(at + 8, 4), bits(tvb, at + 8, 16, 16))
	tree:add_le(f.entropy, tvb(at + 12, 2))
	tree:add(f.fecn, tvb(at + 4, 4), bits(tvb, at + 4, 28, 1) == 1)
	tree:add(f.becn, tvb(at, 4), bits(tvb, at, 31, 1) == 1)
	tree:add(f.switch, tvb(at + 16, 4), switch)
	tree:add(f.pad, tvb(at + n - 1, 1), pad)
	tree:append_text(string.format(", switch %d, LID %d to %d", switch, slid, dlid))
	ethernet:call(tvb(at + HEADER, n - HEADER - TRAILER - pad):tvb(), pinfo, root)
	return tree
end

function vnic.dissector(tvb, pinfo, root)
	if tvb:reported_len() ~= tvb:len() or not valid(tvb) then
		return 0
	end
	ethernet = ethernet or Dissector.get("eth_withoutfcs")
	pinfo.cols.protocol = "gobtl_vnic"
	local at, count, first = 0, 0, nil
	while at < tvb:len() do
		local n, pad = size(tvb, at)
		local tree = one(tvb, at, n, pad, pinfo, root)
		first = first or tree
		at, count = at + n, count + 1
	end
	if count > 1 then
		first:add_proto_expert_info(e_joined)
	end
	return tvb:len()
end

vnic:register_heuristic("udp", function(tvb, pinfo, root)
	return vnic.dissector(tvb, pinfo, root) > 0
end)
