-- A Wireshark dissector for the gobtl protocol, version 2 (docs/protocol.md), for Wireshark 3.6 and
-- later. README.md beside this file tells how to install and use it.
--
-- The parts, in order: the fields; the rules that make bytes a packet (check); what is remembered
-- of connections (analyse); the trees and columns (dissect); the registration.

local gobtl = Proto("gobtl", "gobtl reliable datagrams")

local HEADER, EXTRA, RECORD, HELLO_BODY, NAME_MAX = 32, 16, 4, 72, 64
local REJECT_BODY, RETRY_HEAD, COOKIE_MAX, NONCE, PART_HEAD, PART_GRAIN = 12, 12, 32, 8, 8, 64
local FRAG, CHUNK, ACK, HELLO, HELLO_ACK, NACK, REJECT, PACK = 1, 2, 3, 4, 5, 6, 7, 8
local PART, PING, PONG, RETRY = 9, 10, 11, 12
local FLAG_ACK, FLAG_PUT, FLAG_DUP, FLAG_SACK, FLAG_OP, FLAG_ASK = 1, 2, 4, 8, 16, 32
local FLAG_LATER = 128
local SACK_HEAD, SACK_RANGES_MAX, CHUNK_MIN, OP = 24, 256, 128, 8
local BYE, VOID, TAG_USER_MAX = 0xFF, 0xFE, 0xEF
local PROVEN_ALL = 0x03
local AWAY, HELLO_PADDING = 6, 7 -- extensions

local kinds = {
	[FRAG] = "Frag", [CHUNK] = "Chunk", [ACK] = "Ack", [HELLO] = "Hello",
	[HELLO_ACK] = "HelloAck", [NACK] = "Nack", [REJECT] = "Reject", [PACK] = "Pack",
	[PART] = "Part", [PING] = "Ping", [PONG] = "Pong", [RETRY] = "Retry",
}
local marks = { [BYE] = "Bye", [VOID] = "Void" }
local NACK_RECORD = 3
local RECORD_PIECE = 1
local nackReasons = {
	[1] = "access", [2] = "no handler", [NACK_RECORD] = "no handler for a record",
	[4] = "memory", [5] = "bounds", [6] = "right",
}
-- The codes of operations: name; the least and the most of a payload, whether it is a put, whether it
-- has a tag.
local OP_PART, OP_PLACED, NOTICE_MAX = 1, 3, 64
local operations = {
	[OP_PART] = { "part of a put", 0, 65535, true, false }, [2] = { "notice", 4, 68, false, true },
	[OP_PLACED] = { "put with notice", 0, 65535, true, true }, [4] = { "get", 32, 32, false, false },
	[5] = { "atomic", 40, 40, false, false }, [6] = { "result", 8, 8, false, false },
	[7] = { "failed", 1, 1, false, false },
}
local opCodes = {}
for code, o in pairs(operations) do opCodes[code] = o[1] end
local REJECT_OWNER, REJECT_LATER, REJECT_KEPT = 4, 5, 9
local rejectReasons = {
	[1] = "version", [2] = "full", [3] = "stale", [REJECT_OWNER] = "owner",
	[REJECT_LATER] = "later", [6] = "feature", [7] = "crowded", [8] = "address",
	[REJECT_KEPT] = "kept",
}
local BYE_OWNER = 0x8000
local byeCodes = {
	[1] = "aborted", [2] = "shed", [3] = "narrow", [4] = "broken", [5] = "dead",
}

-- byeText says what the code of a Bye means.
local function byeText(code)
	if code >= BYE_OWNER then return string.format("owner %d", code - BYE_OWNER) end
	return byeCodes[code] or string.format("reserved code %d", code)
end

local channels = { [0] = "command", [1] = "data" }
-- The flags that each kind may carry.
local allowedFlags = { [FRAG] = 151, [CHUNK] = 23, [ACK] = 45, [HELLO] = 0, [HELLO_ACK] = 0,
	[NACK] = 5, [REJECT] = 0, [PACK] = 5, [PART] = 0, [PING] = 0, [PONG] = 0, [RETRY] = 0 }
-- The kinds that occupy a sequence number.
local hasSeq = { [FRAG] = true, [CHUNK] = true, [PACK] = true }

---- Fields ----------------------------------------------------------------------------------------

local f, set = {}, { "Set", "Not set" }
local u8, u16, u32, u64 = ProtoField.uint8, ProtoField.uint16, ProtoField.uint32, ProtoField.uint64
local bytes, bool, frame = ProtoField.bytes, ProtoField.bool, ProtoField.framenum
local DEC, HEX = base.DEC, base.HEX

f.magic = u8("gobtl.magic", "Magic", HEX)
f.version = u8("gobtl.version", "Version", DEC, nil, 0xF0)
f.kind = u8("gobtl.kind", "Kind", DEC, kinds, 0x0F)
f.flags = u8("gobtl.flags", "Flags", HEX)
f.flagReserved = u8("gobtl.flags.reserved", "Reserved", HEX, nil, 0x40)
f.flagLater = bool("gobtl.flags.later", "Later, the Ack may be held back", 8, set, FLAG_LATER)
f.flagAsk = bool("gobtl.flags.ask", "Ask, for the Ack of what is up to seq", 8, set, FLAG_ASK)
f.flagOp = bool("gobtl.flags.op", "Op, of an operation", 8, set, FLAG_OP)
f.flagSack = bool("gobtl.flags.sack", "Sack, tells of packets beyond a gap", 8, set, FLAG_SACK)
f.flagDup = bool("gobtl.flags.dup", "Dup, answers only duplicates", 8, set, FLAG_DUP)
f.flagPut = bool("gobtl.flags.put", "Put, to a region", 8, set, FLAG_PUT)
f.flagAck = bool("gobtl.flags.ack", "Ack, ack and credit are valid", 8, set, FLAG_ACK)
f.tag = u8("gobtl.tag", "Tag", HEX)
f.mark = u8("gobtl.mark", "Mark", HEX, marks)
f.sackDelay = u16("gobtl.sack.delay_us", "Since the last one was accepted, in us", DEC)
f.sackUnread = u16("gobtl.sack.unread_us", "It may have waited to be read, in us", DEC)
f.sackCopies = u32("gobtl.sack.copies", "Packets that had been received before", DEC)
f.sackLast = u32("gobtl.sack.last", "Packet accepted last", DEC)
f.sackNumber = u32("gobtl.sack.last_number", "Packet number of that copy", DEC)
f.sackMarks = u32("gobtl.sack.marks", "Packets marked by the network", DEC)
f.sackData = u8("gobtl.sack.last_data", "Its channel", DEC, channels)
f.sackStart = u16("gobtl.sack.start", "Packets beyond the gap, from", DEC)
f.sackMore = u16("gobtl.sack.more", "And behind it", DEC)
f.nackReason = u8("gobtl.nack.reason", "Reason", DEC, nackReasons)
f.nackRecordTag = u8("gobtl.nack.record_tag", "Tag without a handler", HEX)
f.rejectReason = u8("gobtl.reject.reason", "Reason", DEC, rejectReasons)
f.conn = u64("gobtl.conn", "Connection tag of the receiver", HEX)
f.number = u32("gobtl.number", "Packet number", DEC)
f.seq = u32("gobtl.seq", "Sequence number", DEC)
f.ack = u32("gobtl.ack", "Acknowledged up to", DEC)
f.payloadLen = u16("gobtl.payload_len", "Payload length", DEC)
f.credit = u16("gobtl.credit", "Credit", DEC)
f.creditBytes = u16("gobtl.credit_bytes", "Credit in bytes, by 4096", DEC)
f.extras = u8("gobtl.extras_words", "Words of extras", DEC)
f.headerReserved = u8("gobtl.reserved", "Reserved", HEX)
f.fragID = u32("gobtl.chunk.frag_id", "Fragment", DEC)
f.size = u32("gobtl.chunk.size", "Size of the fragment", DEC)
f.offset = u32("gobtl.chunk.offset", "Offset in the fragment", DEC)
f.first = u16("gobtl.chunk.first", "Size of the first chunk", DEC)
f.chunk = u16("gobtl.chunk.bytes", "Size of the others", DEC)
f.operation = u32("gobtl.op", "Operation", DEC)
f.opCode = u8("gobtl.op.code", "What it is of it", DEC, opCodes)
f.opNotice = u8("gobtl.op.notice_bytes", "Bytes of the notice, at the end", DEC)
f.opReserved = u16("gobtl.op.reserved", "Reserved", HEX)
f.handle = u64("gobtl.put.handle", "Region handle", HEX)
f.putOffset = u64("gobtl.put.offset", "Offset in the region", DEC)
f.payload = bytes("gobtl.payload", "Payload")
f.record = bytes("gobtl.record", "Record")
f.recordTag = u8("gobtl.record.tag", "Tag", HEX)
f.recordFlags = u8("gobtl.record.flags", "Flags", HEX)
f.recordPiece = bool("gobtl.record.piece", "Piece of a fragment", 8, set, 1)
f.recordFragID = u32("gobtl.record.frag_id", "Fragment", DEC)
f.recordSize = u32("gobtl.record.size", "Size of the fragment", DEC)
f.recordOffset = u32("gobtl.record.offset", "Offset in the fragment", DEC)
f.recordFirst = u16("gobtl.record.first", "Size of the first chunk", DEC)
f.recordChunk = u16("gobtl.record.chunk", "Size of the others", DEC)
f.recordLength = u16("gobtl.record.length", "Length", DEC)
f.recordPayload = bytes("gobtl.record.payload", "Payload")
f.rejectMin = u8("gobtl.reject.version_min", "Lowest version", DEC)
f.rejectMax = u8("gobtl.reject.version_max", "Highest version", DEC)
f.rejectCode = u16("gobtl.reject.code", "Code of the owner, or milliseconds", DEC)
f.rejectNonce = u64("gobtl.reject.nonce", "Nonce of the Hello", HEX)
f.retryNonce = u64("gobtl.retry.nonce", "Nonce of the Hello", HEX)
f.retryChannel = u8("gobtl.retry.channel", "Channel", DEC, channels)
f.retryAddressLen = u8("gobtl.retry.address_len", "Length of the address", DEC)
f.retryCookieLen = u8("gobtl.retry.cookie_len", "Length of the cookie", DEC)
f.retryReserved = u8("gobtl.retry.reserved", "Reserved", HEX)
f.retryCookie = bytes("gobtl.retry.cookie", "Cookie")
f.partOffset = u32("gobtl.part.offset", "Offset in the datagram", DEC)
f.partTotal = u32("gobtl.part.total", "Size of the datagram", DEC)
f.partSlice = bytes("gobtl.part.slice", "Slice of the datagram")
f.pingNonce = u64("gobtl.ping.nonce", "Nonce", HEX)
f.pingPadding = bytes("gobtl.ping.padding", "Padding to the size that is asked for")

f.incarnation = u64("gobtl.hello.incarnation", "Incarnation", HEX)
f.helloTag = u64("gobtl.hello.tag", "Connection tag of the sender", HEX)
f.expected = u64("gobtl.hello.expected", "Expected incarnation", HEX)
f.features = u64("gobtl.hello.features", "Features", HEX)
f.window = u32("gobtl.hello.window", "Window, packets", DEC)
f.fragMax = u32("gobtl.hello.fragment_max", "Largest fragment, bytes", DEC)
f.mtu = u16("gobtl.hello.mtu", "MTU of the data channel", DEC)
f.commandBytes = u16("gobtl.hello.command_bytes", "MTU of the command channel", DEC)
f.helloCredit = u16("gobtl.hello.credit", "First credit", DEC)
f.versionMin = u8("gobtl.hello.version_min", "Lowest version", DEC)
f.versionMax = u8("gobtl.hello.version_max", "Highest version", DEC)
f.nonce = u64("gobtl.hello.nonce", "Nonce", HEX)
f.required = u64("gobtl.hello.required", "Required features", HEX)
f.probe = u8("gobtl.hello.probe", "Channel", DEC, channels)
f.proven = u8("gobtl.hello.proven", "Proven channels", HEX)
for p = 1, 0, -1 do
	f["proven" .. p] = bool("gobtl.hello.proven." .. p, channels[p], 8, set, 2 ^ p)
end
f.overhead = u8("gobtl.hello.overhead", "Bytes for protection", DEC)
f.helloReserved = u8("gobtl.hello.reserved", "Reserved", HEX)
f.ackDelay = u32("gobtl.hello.ack_delay_us", "Longest ack delay, microseconds", DEC)
f.commandCookie = bytes("gobtl.hello.command_cookie", "Cookie for the command channel")
f.dataCookie = bytes("gobtl.hello.data_cookie", "Cookie for the data channel")
f.label = bytes("gobtl.hello.label", "Label")
f.away = u32("gobtl.hello.away_ms", "Away, milliseconds", DEC)
f.helloPadding = bytes("gobtl.hello.padding", "Padding")
f.moved = bytes("gobtl.hello.moved", "Name of the module to connect to")
f.byeCode = u16("gobtl.bye.code", "Code of the end", DEC)
f.extension = bytes("gobtl.hello.extension", "Extension")
f.extensionType = u8("gobtl.hello.extension.type", "Type", DEC, nil, 0x7F)
f.extensionCritical = bool("gobtl.hello.extension.critical", "Critical", 8, set, 0x80)
f.extensionLength = u8("gobtl.hello.extension.length", "Length", DEC)
f.extensionValue = bytes("gobtl.hello.extension.value", "Value")
for _, ch in ipairs({
	{ "command", "gobtl.hello.command_", "Address of the command channel" },
	{ "data", "gobtl.hello.data_", "Address of the data channel" },
	{ "seen", "gobtl.retry.seen_", "The Hello came from" },
}) do
	f[ch[1] .. "Name"] = bytes(ch[2] .. "name", ch[3])
	f[ch[1] .. "Addr"] = ProtoField.ipv4(ch[2] .. "addr", "IPv4 address")
	f[ch[1] .. "Addr6"] = ProtoField.ipv6(ch[2] .. "addr6", "IPv6 address")
	f[ch[1] .. "Port"] = u16(ch[2] .. "port", "UDP port", DEC)
end

-- What is not on the wire but follows from other packets.
f.stream = u32("gobtl.stream", "Connection number", DEC)
f.senderTag = u64("gobtl.sender_tag", "Connection tag of the sender", HEX)
f.seqRelative = u32("gobtl.seq_relative", "Sequence number, relative", DEC)
f.ackRelative = u32("gobtl.ack_relative", "Acknowledged up to, relative", DEC)
f.ackedIn = frame("gobtl.acked_in", "Acknowledged in frame", base.NONE, frametype.ACK)
f.acksFrame = frame("gobtl.acks_frame", "Acknowledges up to the packet in frame", base.NONE)
f.ackTime = ProtoField.relative_time("gobtl.ack_time", "Time from that packet to this ack")
f.resentFrom = frame("gobtl.retransmission_of", "Retransmission of frame", base.NONE)
f.replaces = frame("gobtl.replaces", "Takes the place of frame", base.NONE)
f.refuses = frame("gobtl.refuses", "Refuses the packet in frame", base.NONE)
gobtl.fields = f

local x = {}
local function note(key, text, group, severity)
	x[key] = ProtoExpert.new("gobtl." .. key, text, group, severity)
end
-- One for each rule that a datagram can break; the names are those of package frag's errors.
for _, rule in ipairs({ "short", "magic", "version", "kind", "flags", "tag", "conn", "length",
	"bounds", "reserved", "hello" }) do
	note("bad_" .. rule, "Not a packet: " .. rule, expert.group.MALFORMED, expert.severity.ERROR)
end
note("foreign", "Another protocol version", expert.group.PROTOCOL, expert.severity.NOTE)
note("cut", "Cut by the capture", expert.group.UNDECODED, expert.severity.NOTE)
note("joined", "Several packets, cut or joined by the interface", expert.group.REASSEMBLE,
	expert.severity.CHAT)
note("retransmission", "Retransmission", expert.group.SEQUENCE, expert.severity.NOTE)
note("duplicate_ack", "Duplicate ack, tells of a gap", expert.group.SEQUENCE,
	expert.severity.NOTE)
note("refused", "Packet refused for good", expert.group.RESPONSE_CODE, expert.severity.WARN)
note("rejected", "Connection refused", expert.group.RESPONSE_CODE, expert.severity.WARN)
note("voided", "Void in the place of a refused packet", expert.group.SEQUENCE,
	expert.severity.NOTE)
note("closes", "The sender closes the connection", expert.group.SEQUENCE, expert.severity.CHAT)
gobtl.experts = x

gobtl.prefs.relative = Pref.bool("Relative sequence numbers", true,
	"Count sequence numbers from 1 in the Info column and in generated fields. "
	.. "It needs the handshake in the capture.")
gobtl.prefs.analyse = Pref.bool("Follow connections", true,
	"Tell retransmissions and duplicate acks, and link packets to their acks.")
gobtl.prefs.ports = Pref.range("UDP ports", "",
	"Ports on which every datagram is taken for this protocol, and what is none is marked. "
	.. "On other ports packets are recognised by their form.", 65535)

---- The rules: what makes a datagram a packet ----------------------------------------------------

local function has(byte, mask)
	return byte % (2 * mask) >= mask
end

local function zeros(tvb, from, to)
	return to <= from or not tvb:raw(from, to - from):find("[^\0]")
end

local function versionRange(lo, hi)
	return lo >= 1 and lo <= hi and hi <= 15
end

local function headerBytes(kind, flags)
	local n = HEADER
	if kind == CHUNK then n = n + EXTRA end
	if has(flags, FLAG_PUT) and (kind == FRAG or kind == CHUNK) then n = n + EXTRA end
	if has(flags, FLAG_OP) and (kind == FRAG or kind == CHUNK) then n = n + OP end
	return n
end

-- The extensions that are known: the longest value of each, and its field.
local extensions = {
	{ most = NAME_MAX, name = "command" }, { most = NAME_MAX, name = "data" },
	{ most = COOKIE_MAX, field = f.commandCookie }, { most = COOKIE_MAX, field = f.dataCookie },
	{ most = 32, field = f.label }, { least = 4, most = 4, field = f.away },
	{ most = 255, field = f.helloPadding }, { most = 208, field = f.moved },
}

-- eachExtension calls visit(at, type, length) for each extension from at on that was captured whole,
-- header and value. It returns what is wrong with them, nil if nothing is.
local function eachExtension(tvb, at, visit)
	local last, stop = 0, tvb:reported_len()
	while at < stop do
		if stop - at < 2 then return "too short for an extension" end
		if at + 2 > tvb:len() then return nil end
		local kind, length = tvb(at, 1):uint() % 128, tvb(at + 1, 1):uint()
		local known = extensions[kind]
		if at + 2 + length > stop then return "an extension reaches beyond the packet" end
		if kind <= last then return "extensions that do not ascend" end
		if known and has(tvb(at, 1):uint(), 0x80) then return "a known extension is critical" end
		if known and (length < (known.least or 1) or length > known.most) then
			return "an extension of no such length"
		end
		if at + 2 + length > tvb:len() then return nil end
		if kind == AWAY and zeros(tvb, at + 2, at + 6) then return "away for no time" end
		if kind == HELLO_PADDING and not zeros(tvb, at + 2, at + 2 + length) then
			return "padding that is not 0"
		end
		visit(at, kind, length)
		last, at = kind, at + 2 + length
	end
	return nil
end

-- checkHello checks the body of a Hello or HelloAck, whose fixed part begins at HEADER and is whole.
local function checkHello(tvb, bad)
	local body = tvb(HEADER)
	if zeros(tvb, HEADER, HEADER + 8) then bad("hello", "the incarnation is 0") end
	if zeros(tvb, HEADER + 8, HEADER + 16) then bad("hello", "the sender's tag is 0") end
	local features, required = body(32, 8):le_uint64(), body(40, 8):le_uint64()
	if required:bor(features) ~= features then bad("hello", "what is required is no feature") end
	local window = body(48, 4):le_uint()
	if window < 1 or window > 65536 then bad("hello", "the window is out of range") end
	if body(52, 4):le_uint() == 0 then bad("hello", "the largest fragment is 0") end
	if body(56, 4):le_uint() > 1000000 then bad("hello", "the ack delay is above a second") end
	if body(60, 2):le_uint() < 256 then bad("hello", "the MTU is below 256") end
	if body(62, 2):le_uint() < 256 then bad("hello", "the command channel's MTU is below 256") end
	local lo, hi = body(66, 1):uint(), body(67, 1):uint()
	if not versionRange(lo, hi) or lo > 2 or hi < 2 then
		bad("hello", "the versions do not include 2")
	end
	if body(68, 1):uint() > 1 then bad("hello", "no such channel") end
	if body(69, 1):uint() > PROVEN_ALL then bad("hello", "no such proven channels") end
	if body(70, 1):uint() > 64 then bad("hello", "too many bytes for protection") end
	if body(71, 1):uint() ~= 0 then bad("reserved", "the last byte before the extensions is not 0") end
	local wrong = eachExtension(tvb, HEADER + HELLO_BODY, function() end)
	if wrong then bad("hello", wrong) end
end

-- checkOperation checks the extra of an operation, and what goes with it.
local function checkOperation(tvb, p, at, bad)
	local code, notice = tvb(at + 4, 1):uint(), tvb(at + 5, 1):uint()
	local o = operations[code]
	if not zeros(tvb, at + 6, at + OP) or not o
		or notice ~= 0 and (code ~= OP_PLACED or notice > NOTICE_MAX) then
		bad("reserved", "no such operation")
		return
	end
	if o[4] ~= has(p.flags, FLAG_PUT) or p.kind == CHUNK and code ~= OP_PART then
		bad("flags", "an operation of another kind")
	end
	if p.tag > TAG_USER_MAX or p.tag ~= 0 and not o[5] then bad("tag", "an operation has a tag") end
	if p.len < o[2] or p.len > o[3] or p.len < notice then
		bad("length", "no such operation has that length")
	end
end

-- offGrid says how a chunk of len bytes, whose extra begins at at, breaks the rules of the grid.
local function offGrid(tvb, at, len)
	local size, offset = tvb(at + 4, 4):le_uint(), tvb(at + 8, 4):le_uint()
	local first, chunk = tvb(at + 12, 2):le_uint(), tvb(at + 14, 2):le_uint()
	if offset + len > size then return "the chunk reaches beyond its fragment" end
	if first == 0 or first > size or chunk < CHUNK_MIN then return "no grid" end
	if offset == 0 and len ~= first or offset > 0 and (offset < first
		or (offset - first) % chunk ~= 0 or len ~= math.min(chunk, size - offset)) then
		return "the chunk lies off its grid"
	end
end

-- checkExtras checks what follows the common header of a Chunk or a put.
local function checkExtras(tvb, p, bad)
	local at = HEADER
	if p.kind == CHUNK then
		if p.len == 0 then
			bad("bounds", "a chunk without payload")
		elseif not has(p.flags, FLAG_PUT) then
			local wrong = offGrid(tvb, at, p.len)
			if wrong then bad("bounds", wrong) end
		elseif tvb(at + 8, 4):le_uint() + p.len > tvb(at + 4, 4):le_uint() then
			bad("bounds", "the chunk reaches beyond its fragment")
		elseif tvb(at + 12, 4):le_uint() ~= 0 then
			bad("bounds", "a put has a grid")
		end
		at = at + EXTRA
	end
	if has(p.flags, FLAG_PUT) then
		if p.tag ~= 0 and not has(p.flags, FLAG_OP) then bad("tag", "a put has a tag") end
		local offset = tvb(at + 8, 8):le_uint64()
		if offset + UInt64.new(p.len) < offset then
			bad("bounds", "the end of the put does not fit 64 bits")
		end
		at = at + EXTRA
	elseif p.kind == CHUNK and p.tag > TAG_USER_MAX then
		bad("tag", "a chunk has a tag of the transport")
	end
	if has(p.flags, FLAG_OP) then checkOperation(tvb, p, at, bad) end
end

-- wrongPiece says which rule a piece of size bytes at at breaks, of a pack that ends at stop and
-- whose first record is an end, if that is one.
local function wrongPiece(tvb, at, size, stop, ending)
	if size <= RECORD + EXTRA then return "length", "a piece without payload" end
	if at ~= HEADER and at + size ~= stop then
		return "flags", "a piece that is neither the first record nor the last"
	end
	if at + RECORD + EXTRA > tvb:len() then return end
	local wrong = offGrid(tvb, at + RECORD, size - RECORD - EXTRA)
	if wrong then return "bounds", wrong end
	if ending and (not ending.ends or tvb(at + RECORD + 8, 4):le_uint() ~= 0
		or tvb(at + RECORD, 4):le_uint() == ending.fragID) then
		return "bounds", "two pieces that are not an end and a beginning"
	end
end

-- eachRecord calls visit(at, captured, size, broken) for each record of a pack: where it begins,
-- whether its header was captured, its length with the header as far as it is in the datagram, and
-- its broken rules as a list. What is no record ends it.
local function eachRecord(tvb, visit)
	local at, stop, ending = HEADER, tvb:reported_len(), nil
	repeat
		local broken, size, captured = {}, stop - at, at + RECORD <= tvb:len()
		if size < RECORD then
			table.insert(broken, { "length", "too short for a record" })
		elseif captured then
			local tag, length = tvb(at, 1):uint(), tvb(at + 2, 2):le_uint()
			if tag > TAG_USER_MAX then
				table.insert(broken, { "tag", "a record with a tag of the transport" })
			end
			local flags = tvb(at + 1, 1):uint()
			if flags > RECORD_PIECE then
				table.insert(broken, { "reserved", "a record with reserved flags" })
			end
			if RECORD + length > size then
				table.insert(broken, { "length", "a record reaches beyond the packet" })
			else
				size = RECORD + length
				if flags == RECORD_PIECE then
					local rule, why = wrongPiece(tvb, at, size, stop, ending)
					if rule then table.insert(broken, { rule, why }) end
					if at == HEADER and size > RECORD + EXTRA and at + RECORD + EXTRA <= tvb:len() then
						ending = {
							fragID = tvb(at + RECORD, 4):le_uint(),
							ends = tvb(at + RECORD + 8, 4):le_uint() + size - RECORD - EXTRA
								== tvb(at + RECORD + 4, 4):le_uint(),
						}
					end
				end
			end
		end
		visit(at, captured, size, broken)
		at = at + size
	until at >= stop
end

-- kindRules check what is particular to a kind. The header and its extras are there; payloadLen may
-- be wrong.
local kindRules = {}

kindRules[FRAG] = function(tvb, p, bad)
	if has(p.flags, FLAG_PUT) then
		checkExtras(tvb, p, bad)
	elseif p.tag > TAG_USER_MAX then
		if has(p.flags, FLAG_OP) then
			bad("tag", "a mark of an operation")
			checkOperation(tvb, p, HEADER, bad)
		end
		if has(p.flags, FLAG_LATER) then bad("tag", "a mark whose Ack may come later") end
		if not marks[p.tag] then bad("tag", "a reserved mark") end
		if p.len ~= 0 and (p.tag ~= BYE or p.len ~= 2) then
			bad("length", "a mark has a payload")
		elseif p.len == 2 and tvb:len() >= HEADER + 2 and zeros(tvb, HEADER, HEADER + 2) then
			bad("reserved", "a Bye with the code of none")
		end
	else
		checkExtras(tvb, p, bad)
	end
end

kindRules[CHUNK] = checkExtras

kindRules[ACK] = function(tvb, p, bad)
	if not has(p.flags, FLAG_ACK) then bad("flags", "an Ack without the Ack flag") end
	if p.tag ~= 0 then bad("tag", "an Ack has a tag") end
	if p.seq ~= 0 and not has(p.flags, FLAG_ASK) then
		bad("reserved", "an Ack has a sequence number")
	end
	if not has(p.flags, FLAG_SACK) then
		if p.len ~= 0 then bad("length", "an Ack without the Sack flag has a payload") end
	elseif p.len < SACK_HEAD or p.len > SACK_HEAD + 4 * SACK_RANGES_MAX
		or (p.len - SACK_HEAD) % 4 ~= 0 then
		bad("length", "no Sack has that length")
	elseif tvb:len() >= HEADER + p.len then
		if tvb(HEADER + 20, 4):le_uint() > 1 then bad("reserved", "no such channel") end
		local behind = -1
		for at = HEADER + SACK_HEAD, HEADER + p.len - 4, 4 do
			local start, more = tvb(at, 2):le_uint(), tvb(at + 2, 2):le_uint()
			if start <= behind or start + more > 65535 then bad("bounds", "ranges that do not ascend") end
			behind = start + more + 1
		end
	end
end

kindRules[HELLO] = function(tvb, p, bad)
	if p.tag ~= 0 then bad("tag", "a Hello has a tag") end
	if p.len < HELLO_BODY then
		bad("length", "the payload is too short for a Hello")
	elseif tvb:len() >= HEADER + HELLO_BODY then
		checkHello(tvb, bad)
	end
end

kindRules[HELLO_ACK] = kindRules[HELLO]

kindRules[NACK] = function(tvb, p, bad)
	if not nackReasons[p.tag] then bad("tag", "no such reason") end
	if p.tag == NACK_RECORD then
		if p.len ~= 1 then
			bad("length", "the payload of a Nack for a record is not 1 byte")
		elseif tvb:len() > HEADER and tvb(HEADER, 1):uint() > TAG_USER_MAX then
			bad("tag", "a Nack for a record with a tag of the transport")
		end
	elseif p.len ~= 0 then
		bad("length", "a Nack has a payload")
	end
end

kindRules[PACK] = function(tvb, p, bad)
	if p.tag ~= 0 then bad("tag", "a Pack has a tag") end
	eachRecord(tvb, function(_, _, _, broken)
		for _, b in ipairs(broken) do bad(b[1], b[2]) end
	end)
end

-- checkAnswer checks what a Reject and a Retry have in common: they are of no connection.
local function checkAnswer(p, bad)
	if p.seq ~= 0 or p.number ~= 0 then bad("reserved", "an answer to a stranger has a number") end
end

kindRules[REJECT] = function(tvb, p, bad)
	if p.tag == 0 then bad("tag", "no such reason") end
	checkAnswer(p, bad)
	if p.len ~= REJECT_BODY then bad("length", "the payload of a Reject is not 12 bytes") end
	if tvb:len() < HEADER + REJECT_BODY then return end
	if not versionRange(tvb(HEADER, 1):uint(), tvb(HEADER + 1, 1):uint()) then
		bad("bounds", "no range of versions")
	end
	if p.tag ~= REJECT_OWNER and p.tag ~= REJECT_LATER and p.tag < REJECT_KEPT
		and tvb(HEADER + 2, 2):le_uint() ~= 0 then
		bad("reserved", "a code without an owner")
	end
end

kindRules[RETRY] = function(tvb, p, bad)
	if p.tag ~= 0 then bad("tag", "a Retry has a tag") end
	checkAnswer(p, bad)
	if p.len < RETRY_HEAD + 1 then bad("length", "the payload is too short for a Retry") end
	if tvb:len() < HEADER + RETRY_HEAD then return end
	local addressLen, cookieLen = tvb(HEADER + 9, 1):uint(), tvb(HEADER + 10, 1):uint()
	if tvb(HEADER + 8, 1):uint() > 1 then bad("hello", "no such channel") end
	if addressLen > NAME_MAX then bad("hello", "the address is longer than 64 bytes") end
	if cookieLen < 1 or cookieLen > COOKIE_MAX then bad("hello", "a cookie of no such length") end
	if tvb(HEADER + 11, 1):uint() ~= 0 then bad("reserved", "the reserved byte of a Retry is not 0") end
	if p.len ~= RETRY_HEAD + addressLen + cookieLen then
		bad("length", "address and cookie are not the rest of the Retry")
	end
end

kindRules[PING] = function(tvb, p, bad)
	if p.tag ~= 0 then bad("tag", "a Ping or Pong has a tag") end
	if p.seq ~= 0 then bad("reserved", "a Ping or Pong has a sequence number") end
	if p.len < NONCE or p.kind == PONG and p.len > NONCE then
		bad("length", "no Ping or Pong has that length")
	end
	if p.kind == PING and not zeros(tvb, HEADER + NONCE, tvb:len()) then
		bad("reserved", "the padding of a Ping is not 0")
	end
end

kindRules[PONG] = kindRules[PING]

kindRules[PART] = function(tvb, p, bad)
	if p.tag ~= 0 then bad("tag", "a Part has a tag") end
	if p.len <= PART_HEAD then bad("length", "the payload is too short for a Part") end
	if tvb:len() < HEADER + PART_HEAD then return end
	local offset, total = tvb(HEADER, 4):le_uint(), tvb(HEADER + 4, 4):le_uint()
	local slice = p.len - PART_HEAD
	if total <= HEADER or total > 65535 or slice < 1 or slice >= total or offset % PART_GRAIN ~= 0
		or offset + slice > total or slice % PART_GRAIN ~= 0 and offset + slice ~= total then
		bad("bounds", "no slice of a datagram")
	end
end

-- read reads the common header.
local function read(tvb)
	local second = tvb(1, 1):uint()
	local p = {
		version = math.floor(second / 16), kind = second % 16,
		flags = tvb(2, 1):uint(), tag = tvb(3, 1):uint(), conn = tvb:raw(4, 8),
		number = tvb(12, 4):le_uint(), seq = tvb(16, 4):le_uint(), ack = tvb(20, 4):le_uint(),
		len = tvb(24, 2):le_uint(), credit = tvb(26, 2):le_uint(), creditBytes = tvb(28, 2):le_uint(),
		words = tvb(30, 1):uint(), zero = tvb(31, 1):uint(),
	}
	p.headerBytes = headerBytes(p.kind, p.flags)
	return p
end

-- foreign says whether a packet of another version is one whose form is the same in all, or one of
-- version 1, which had a shorter header.
local function foreign(tvb, p)
	if p.version == 2 then return false end
	if p.kind == REJECT then
		return tvb:len() == (p.version == 1 and 26 or HEADER + REJECT_BODY)
	elseif p.kind ~= HELLO or p.version == 0 then
		return false
	elseif p.version == 1 then
		return tvb:len() >= 208 and not zeros(tvb, 32, 40) and tvb(74, 1):uint() <= NAME_MAX
	end
	return tvb:len() >= HEADER + HELLO_BODY and not zeros(tvb, HEADER + 8, HEADER + 16)
		and not eachExtension(tvb, HEADER + HELLO_BODY, function() end)
end

-- check returns the header, nil if there is none, and the list of broken rules, { rule, text }.
-- With a header and no broken rule a datagram is a packet of version 2.
local function check(tvb)
	local broken, len = {}, tvb:reported_len()
	local function bad(rule, text) table.insert(broken, { rule, text }) end
	if len < HEADER then
		bad("short", "shorter than any header")
		return nil, broken
	elseif tvb:len() < HEADER then
		return nil, broken -- cut by the capture
	elseif tvb(0, 1):uint() ~= 0xB7 then
		bad("magic", "the first byte is not 0xb7")
		return nil, broken
	end
	local p = read(tvb)
	if p.version ~= 2 then
		bad("version", "version " .. p.version)
		return p, broken
	elseif not kinds[p.kind] then
		bad("kind", "no kind " .. p.kind)
		return p, broken
	end
	for bit = 0, 7 do
		if has(p.flags, 2 ^ bit) and not has(allowedFlags[p.kind], 2 ^ bit) then
			bad("flags", string.format("a %s with flag 0x%02x", kinds[p.kind], 2 ^ bit))
		end
	end
	if has(p.flags, FLAG_DUP) and not has(p.flags, FLAG_ACK) then
		bad("flags", "Dup without Ack")
	end
	if has(p.flags, FLAG_LATER) and not has(p.flags, FLAG_ACK) then
		bad("flags", "Later without Ack")
	end
	if len < p.headerBytes then
		bad("short", "shorter than its header")
		return p, broken
	elseif len ~= p.headerBytes + p.len then
		bad("length", string.format("%d bytes, the header says %d", len, p.headerBytes + p.len))
	end
	if not has(p.flags, FLAG_ACK) and (p.ack ~= 0 or p.credit ~= 0 or p.creditBytes ~= 0) then
		bad("reserved", "ack or credit without the Ack flag")
	end
	if (p.kind ~= HELLO or p.number ~= 0) and not p.conn:find("[^\0]") then
		bad("conn", "no connection tag")
	end
	if p.words * 4 ~= p.headerBytes - HEADER or p.zero ~= 0 then
		bad("reserved", "the extras have another length, or the last byte of the header is not 0")
	end
	if tvb:len() >= p.headerBytes then kindRules[p.kind](tvb, p, bad) end
	return p, broken
end

-- split returns the packets of a captured datagram that a network card with segmentation offload,
-- or a loopback interface, has not cut yet, or has joined again: all of the same size but the last
-- one. nil if it is none. Of one that the capture has cut it returns what is whole.
local function split(tvb)
	local list, at, size, len = {}, 0, nil, tvb:reported_len()
	while at < len and at + HEADER <= tvb:len() do
		local p = read(tvb(at, HEADER):tvb())
		local n = p.headerBytes + p.len
		size = size or n
		if p.version ~= 2 or n > size or at + n > len or n < size and at + n < len then return nil end
		if at + n > tvb:len() then break end
		local part = tvb(at, n):tvb()
		local whole, broken = check(part)
		if not whole or #broken > 0 then return nil end
		table.insert(list, { part, whole })
		at = at + n
	end
	if #list < 2 or at < len and tvb:len() == len then return nil end
	return list
end

---- Connections ----------------------------------------------------------------------------------

-- An endpoint is known by the tag that it has chosen: what packets to it carry in conn.
--   number   that tag
--   stream   { n }, shared by the two ends of a connection
--   peer     the other end, when a handshake has told
--   first    the first sequence number that it sends
--   arrived  by sequence number: the packets sent to it, { first, acked } frame numbers and times
--   oldest   of those, the first one that is not acknowledged
--   newest   and the last one that was sent
--   features what its Hello announces
--   ack, limit  the last acknowledgement sent to it, and the end of its credits
local endpoints, streams, frames

local function forget()
	endpoints, streams, frames = {}, 0, {}
end
forget()
gobtl.init = forget -- a capture is opened

-- before compares numbers that wrap: negative if a comes before b.
local function before(a, b)
	local d = (a - b) % 4294967296
	return d < 2147483648 and d or d - 4294967296
end

local function after(n, count)
	return (n + count) % 4294967296
end

-- endpoint returns the endpoint with a tag; a new one belongs to a connection if that is given, else
-- to a new one.
local function endpoint(tag, stream)
	local e = endpoints[tag]
	if not e then
		if not stream then
			stream = { n = streams }
			streams = streams + 1
		end
		e = { number = Struct.unpack("<E", tag), stream = stream, arrived = {} }
		endpoints[tag] = e
	end
	return e
end

-- noteHello learns the ends of a connection, and the sender's first sequence number, from a Hello.
local function noteHello(tvb, p, info)
	local to = p.conn:find("[^\0]") and endpoint(p.conn)
	local from = endpoint(tvb:raw(HEADER + 8, 8), to and to.stream)
	-- The Hello of an established connection has no first number: 0, and both channels are proven.
	if not from.first and (p.seq ~= 0 or tvb(HEADER + 69, 1):uint() ~= PROVEN_ALL) then
		from.first = p.seq
	end
	from.features = tvb(HEADER + 32, 8):le_uint64()
	info.from = from
	if to and from.peer ~= to then
		from.peer, to.peer, from.stream = to, from, to.stream
	end
	info.to = to or nil
end

-- isReliable says whether the connection of an endpoint leaves it to the carrier that nothing is lost.
local function isReliable(e)
	local function announces(a) return a and a.features and a.features:band(2) ~= UInt64(0) end
	return announces(e) and announces(e.peer)
end

-- noteData books a packet with a sequence number.
local function noteData(p, to, info)
	local sent = to.arrived[p.seq]
	if sent then
		-- A pack that is smaller than before lacks the records that were refused.
		local void = p.kind == FRAG and p.tag == VOID and not has(p.flags, FLAG_PUT)
		if void or p.kind == PACK and p.len < sent.len then
			info.replaces, sent.len = sent.first, p.len
		else
			info.resentFrom = sent.first
		end
	else
		sent = { first = info.number, time = info.time, len = p.len }
		to.arrived[p.seq] = sent
	end
	info.sent = sent
	to.oldest = to.oldest or p.seq
	if not to.newest or before(to.newest, p.seq) < 0 then to.newest = p.seq end
end

-- noteAck books an acknowledgement: of what its receiver has sent.
local function noteAck(p, to, info)
	local by = to.peer
	local limit = after(p.ack, 1 + math.max(1, p.credit))
	local raised = not to.limit or before(to.limit, limit) < 0
	local waiting = by and by.newest and before(p.ack, by.newest) < 0
	info.duplicateAck = to.ack == p.ack and waiting and not raised
		and not has(p.flags, FLAG_DUP) and not has(p.flags, FLAG_SACK)
	if raised then to.limit = limit end
	to.ack = p.ack
	if not by or not by.oldest then return end
	local last = by.arrived[p.ack]
	if last and not last.acked then info.acks, info.acksTime = last.first, last.time end
	local steps = before(p.ack, by.oldest) + 1
	if steps > 65536 then return end -- no window is so large
	for i = 0, steps - 1 do
		local sent = by.arrived[after(by.oldest, i)]
		if sent and not sent.acked then sent.acked = info.number end
	end
	if steps > 0 then by.oldest = after(p.ack, 1) end
end

-- analyse returns what is known of a packet, the index-th in its frame, beside its bytes. The first
-- pass over the capture collects it, frame by frame; it grows while acknowledgements come.
local function analyse(tvb, pinfo, p, index)
	local inFrame = frames[pinfo.number] or {}
	if inFrame[index] or pinfo.visited then return inFrame[index] end
	local info = { number = pinfo.number, time = pinfo.rel_ts }
	frames[pinfo.number], inFrame[index] = inFrame, info
	if p.kind == HELLO or p.kind == HELLO_ACK then
		noteHello(tvb, p, info)
		return info
	end
	local to = endpoint(p.conn)
	info.to = to
	if isReliable(to) then -- numbers are counts, and only in packets that ask for a confirmation
		info.asks = hasSeq[p.kind] and p.seq ~= 0
		return info
	end
	if hasSeq[p.kind] then noteData(p, to, info) end
	if p.kind == NACK then
		local refused = to.peer and to.peer.arrived[p.seq]
		info.refuses = refused and refused.first
	end
	if has(p.flags, FLAG_ACK) then noteAck(p, to, info) end
	return info
end

-- relative counts n from the first number that e sends, which is 1. nil if that is not known, and for
-- the 0 of a reliable connection, which is no number.
local function relative(n, e)
	if n == 0 and isReliable(e) then return nil end
	return gobtl.prefs.relative and e and e.first and after(n, 1 - e.first) or nil
end

---- Trees ----------------------------------------------------------------------------------------

-- leaf adds a field if the capture has its bytes.
local function leaf(tree, field, tvb, at, len)
	if at + len > tvb:len() then return nil end
	return tree:add_le(field, tvb(at, len))
end

local function generated(tree, field, value)
	if value then tree:add(field, value):set_generated() end
end

-- addFlags adds the flags as bits.
local function addFlags(tree, tvb, p)
	local names = {}
	if has(p.flags, FLAG_ACK) then table.insert(names, "Ack") end
	if has(p.flags, FLAG_PUT) then table.insert(names, "Put") end
	if has(p.flags, FLAG_DUP) then table.insert(names, "Dup") end
	if has(p.flags, FLAG_SACK) then table.insert(names, "Sack") end
	if has(p.flags, FLAG_OP) then table.insert(names, "Op") end
	if has(p.flags, FLAG_ASK) then table.insert(names, "Ask") end
	if has(p.flags, FLAG_LATER) then table.insert(names, "Later") end
	local sub = tree:add(f.flags, tvb(2, 1))
	if #names > 0 then sub:append_text(" (" .. table.concat(names, ", ") .. ")") end
	for _, field in ipairs({
		f.flagReserved, f.flagLater, f.flagAsk, f.flagOp, f.flagSack, f.flagDup, f.flagPut, f.flagAck,
	}) do
		sub:add(field, tvb(2, 1))
	end
end

-- addTag adds byte 3 under the name that it has in this packet. Every packet has gobtl.tag.
local function addTag(tree, tvb, p)
	local sub = tree:add(f.tag, tvb(3, 1))
	if p.kind == FRAG and p.tag > TAG_USER_MAX then
		sub:add(f.mark, tvb(3, 1))
		sub:append_text(" (" .. (marks[p.tag] or "reserved mark") .. ")")
	elseif p.kind == NACK then
		sub:add(f.nackReason, tvb(3, 1))
		sub:append_text(" (" .. (nackReasons[p.tag] or "unknown reason") .. ")")
	elseif p.kind == REJECT then
		sub:add(f.rejectReason, tvb(3, 1))
		sub:append_text(" (" .. (rejectReasons[p.tag] or "unknown reason") .. ")")
	end
end

local function addHeader(tree, tvb, p, info)
	tree:add(f.magic, tvb(0, 1))
	tree:add(f.version, tvb(1, 1))
	tree:add(f.kind, tvb(1, 1))
	addFlags(tree, tvb, p)
	addTag(tree, tvb, p)
	tree:add_le(f.conn, tvb(4, 8))
	tree:add_le(f.number, tvb(12, 4))
	tree:add_le(f.seq, tvb(16, 4))
	if p.kind == HELLO or p.kind == HELLO_ACK then
		if info and info.from.first == p.seq then
			generated(tree, f.seqRelative, relative(p.seq, info.from))
		end
	elseif hasSeq[p.kind] or p.kind == NACK or p.kind == PART then
		generated(tree, f.seqRelative, info and relative(p.seq, p.kind == NACK and info.to
			or info.to and info.to.peer))
	end
	tree:add_le(f.ack, tvb(20, 4))
	if info and has(p.flags, FLAG_ACK) then
		generated(tree, f.ackRelative, relative(p.ack, info.to))
	end
	tree:add_le(f.payloadLen, tvb(24, 2))
	tree:add_le(f.credit, tvb(26, 2))
	tree:add_le(f.creditBytes, tvb(28, 2))
	tree:add(f.extras, tvb(30, 1))
	tree:add(f.headerReserved, tvb(31, 1))
end

local function addExtras(tree, tvb, p)
	local at = HEADER
	if p.kind == CHUNK then
		leaf(tree, f.fragID, tvb, at, 4)
		leaf(tree, f.size, tvb, at + 4, 4)
		leaf(tree, f.offset, tvb, at + 8, 4)
		leaf(tree, f.first, tvb, at + 12, 2)
		leaf(tree, f.chunk, tvb, at + 14, 2)
		at = at + EXTRA
	end
	if has(p.flags, FLAG_PUT) then
		leaf(tree, f.handle, tvb, at, 8)
		leaf(tree, f.putOffset, tvb, at + 8, 8)
		at = at + EXTRA
	end
	if has(p.flags, FLAG_OP) then
		leaf(tree, f.operation, tvb, at, 4)
		leaf(tree, f.opCode, tvb, at + 4, 1)
		leaf(tree, f.opNotice, tvb, at + 5, 1)
		leaf(tree, f.opReserved, tvb, at + 6, 2)
	end
end

-- addName adds an address of 0 to 64 bytes, and what it says if it is one of the provider udp
-- (version of IP, port, address) or of ofi/udp (a sockaddr_in or sockaddr_in6 as a little-endian
-- Linux has them: family, port, then the rest).
local function addName(tree, tvb, channel, at, len)
	local sub = leaf(tree, f[channel .. "Name"], tvb, at, len)
	if not sub or len < 7 then return end
	local version, family = tvb(at, 1):uint(), tvb(at, 2):le_uint()
	local port, addr, addr6
	if len == 7 and version == 4 then
		port, addr = tvb(at + 1, 2), tvb(at + 3, 4)
	elseif len == 19 and version == 6 then
		port, addr6 = tvb(at + 1, 2), tvb(at + 3, 16)
	elseif len >= 8 and family == 2 then
		port, addr = tvb(at + 2, 2), tvb(at + 4, 4)
	elseif len >= 24 and family == 10 then
		port, addr6 = tvb(at + 2, 2), tvb(at + 8, 16)
	else
		return
	end
	if addr then
		sub:add(f[channel .. "Addr"], addr)
		sub:append_text(string.format(" (%s:%d)", tostring(addr:ipv4()), port:uint()))
	else
		sub:add(f[channel .. "Addr6"], addr6)
		sub:append_text(string.format(" ([%s]:%d)", tostring(addr6:ipv6()), port:uint()))
	end
	sub:add(f[channel .. "Port"], port)
end

local helloFields = {
	{ f.incarnation, 0, 8 }, { f.helloTag, 8, 8 }, { f.expected, 16, 8 }, { f.nonce, 24, 8 },
	{ f.features, 32, 8 }, { f.required, 40, 8 }, { f.window, 48, 4 }, { f.fragMax, 52, 4 },
	{ f.ackDelay, 56, 4 }, { f.mtu, 60, 2 }, { f.commandBytes, 62, 2 }, { f.helloCredit, 64, 2 },
	{ f.versionMin, 66, 1 }, { f.versionMax, 67, 1 }, { f.probe, 68, 1 },
}

-- addExtensions adds the extensions of a Hello from at on.
local function addExtensions(tree, tvb, at)
	eachExtension(tvb, at, function(here, kind, length)
		local known = extensions[kind]
		if not known then
			local sub = tree:add(f.extension, tvb(here, 2 + length))
			sub:add(f.extensionType, tvb(here, 1))
			sub:add(f.extensionCritical, tvb(here, 1))
			sub:add(f.extensionLength, tvb(here + 1, 1))
			if length > 0 then sub:add(f.extensionValue, tvb(here + 2, length)) end
			sub:set_text(string.format("Extension %d", kind))
		elseif known.name then
			addName(tree, tvb, known.name, here + 2, length)
		else
			local sub = leaf(tree, known.field, tvb, here + 2, length)
			local text = tvb:raw(here + 2, length)
			if kind == 5 and not text:find("[^\32-\126]") then sub:append_text(" (" .. text .. ")") end
		end
	end)
end

local function addHello(tree, tvb)
	for _, e in ipairs(helloFields) do
		leaf(tree, e[1], tvb, HEADER + e[2], e[3])
	end
	local proven = leaf(tree, f.proven, tvb, HEADER + 69, 1)
	for bit = 1, 0, -1 do
		if proven then leaf(proven, f["proven" .. bit], tvb, HEADER + 69, 1) end
	end
	leaf(tree, f.overhead, tvb, HEADER + 70, 1)
	leaf(tree, f.helloReserved, tvb, HEADER + 71, 1)
	addExtensions(tree, tvb, HEADER + HELLO_BODY)
end

local function addReject(tree, tvb)
	leaf(tree, f.rejectMin, tvb, HEADER, 1)
	leaf(tree, f.rejectMax, tvb, HEADER + 1, 1)
	leaf(tree, f.rejectCode, tvb, HEADER + 2, 2)
	leaf(tree, f.rejectNonce, tvb, HEADER + 4, 8)
end

local function addRetry(tree, tvb)
	leaf(tree, f.retryNonce, tvb, HEADER, 8)
	leaf(tree, f.retryChannel, tvb, HEADER + 8, 1)
	leaf(tree, f.retryAddressLen, tvb, HEADER + 9, 1)
	leaf(tree, f.retryCookieLen, tvb, HEADER + 10, 1)
	leaf(tree, f.retryReserved, tvb, HEADER + 11, 1)
	if tvb:len() < HEADER + RETRY_HEAD then return end
	local at, addressLen = HEADER + RETRY_HEAD, tvb(HEADER + 9, 1):uint()
	if addressLen > 0 then addName(tree, tvb, "seen", at, addressLen) end
	local cookieLen = tvb(HEADER + 10, 1):uint()
	if cookieLen > 0 then leaf(tree, f.retryCookie, tvb, at + addressLen, cookieLen) end
end

local function addPing(tree, tvb)
	leaf(tree, f.pingNonce, tvb, HEADER, NONCE)
	if tvb:len() > HEADER + NONCE then tree:add(f.pingPadding, tvb(HEADER + NONCE)) end
end

local function addPart(tree, tvb)
	leaf(tree, f.partOffset, tvb, HEADER, 4)
	leaf(tree, f.partTotal, tvb, HEADER + 4, 4)
	if tvb:len() > HEADER + PART_HEAD then tree:add(f.partSlice, tvb(HEADER + PART_HEAD)) end
end

-- addRecords adds the records of a pack, and marks those that are none.
local function addRecords(tree, tvb)
	eachRecord(tvb, function(at, captured, size, broken)
		local here = math.min(size, tvb:len() - at)
		if here <= 0 then return end
		local sub = tree:add(f.record, tvb(at, here))
		for _, b in ipairs(broken) do
			sub:add_proto_expert_info(x["bad_" .. b[1]], "Not a packet: " .. b[2])
		end
		if not captured then return end
		leaf(sub, f.recordTag, tvb, at, 1)
		leaf(sub, f.recordFlags, tvb, at + 1, 1)
		leaf(sub, f.recordPiece, tvb, at + 1, 1)
		leaf(sub, f.recordLength, tvb, at + 2, 2)
		local head = RECORD
		if tvb(at + 1, 1):uint() == RECORD_PIECE and here >= RECORD + EXTRA then
			leaf(sub, f.recordFragID, tvb, at + 4, 4)
			leaf(sub, f.recordSize, tvb, at + 8, 4)
			leaf(sub, f.recordOffset, tvb, at + 12, 4)
			leaf(sub, f.recordFirst, tvb, at + 16, 2)
			leaf(sub, f.recordChunk, tvb, at + 18, 2)
			head = RECORD + EXTRA
		end
		if here > head then sub:add(f.recordPayload, tvb(at + head, here - head)) end
		sub:set_text(string.format("Record: tag=0x%02x len=%d", tvb(at, 1):uint(),
			tvb(at + 2, 2):le_uint()))
	end)
end

local function addSack(tree, tvb, p)
	leaf(tree, f.sackDelay, tvb, HEADER, 2)
	leaf(tree, f.sackUnread, tvb, HEADER + 2, 2)
	leaf(tree, f.sackCopies, tvb, HEADER + 4, 4)
	leaf(tree, f.sackLast, tvb, HEADER + 8, 4)
	leaf(tree, f.sackNumber, tvb, HEADER + 12, 4)
	leaf(tree, f.sackMarks, tvb, HEADER + 16, 4)
	leaf(tree, f.sackData, tvb, HEADER + 20, 1)
	for at = HEADER + SACK_HEAD, HEADER + p.len - 4, 4 do
		leaf(tree, f.sackStart, tvb, at, 2)
		leaf(tree, f.sackMore, tvb, at + 2, 2)
	end
end

-- Of kinds whose payload has a form of its own.
local payloads = {
	[HELLO] = addHello, [HELLO_ACK] = addHello, [REJECT] = addReject, [RETRY] = addRetry,
	[PACK] = addRecords, [PART] = addPart, [PING] = addPing, [PONG] = addPing,
}

local function addPayload(tree, tvb, p)
	if payloads[p.kind] then
		payloads[p.kind](tree, tvb)
	elseif p.kind == ACK and has(p.flags, FLAG_SACK) then
		addSack(tree, tvb, p)
	elseif p.kind == NACK and p.tag == NACK_RECORD and p.len == 1 then
		leaf(tree, f.nackRecordTag, tvb, HEADER, 1)
	elseif p.kind == FRAG and p.tag == BYE and p.len == 2 then
		local sub = leaf(tree, f.byeCode, tvb, HEADER, 2)
		if sub then sub:append_text(" (" .. byeText(tvb(HEADER, 2):le_uint()) .. ")") end
	elseif tvb:len() > p.headerBytes then
		tree:add(f.payload, tvb(p.headerBytes))
	end
end

-- addForeign adds what is the same in every version, or stands in version 1.
local function addForeign(tree, tvb, p)
	tree:add(f.magic, tvb(0, 1))
	tree:add(f.version, tvb(1, 1))
	tree:add(f.kind, tvb(1, 1))
	if p.kind == REJECT then addTag(tree, tvb, p) end
	tree:add_le(f.conn, tvb(4, 8))
	if p.kind == REJECT and p.version == 1 then
		tree:add(f.rejectMin, tvb(24, 1))
		tree:add(f.rejectMax, tvb(25, 1))
	elseif p.kind == REJECT then
		addReject(tree, tvb)
	elseif p.version == 1 then
		tree:add_le(f.incarnation, tvb(24, 8))
		tree:add_le(f.helloTag, tvb(32, 8))
		local length = tvb(74, 1):uint()
		if length > 0 then addName(tree, tvb, "command", 80, length) end
	else
		tree:add_le(f.incarnation, tvb(HEADER, 8))
		tree:add_le(f.helloTag, tvb(HEADER + 8, 8))
		tree:add_le(f.nonce, tvb(HEADER + 24, 8))
		eachExtension(tvb, HEADER + HELLO_BODY, function(at, kind, len)
			if kind == 1 then addName(tree, tvb, "command", at + 2, len) end
		end)
	end
end

-- addFindings adds what follows from other packets.
local function addFindings(tree, info)
	local to, from = info.to, info.from or info.to and info.to.peer
	generated(tree, f.stream, (to or from).stream.n)
	generated(tree, f.senderTag, from and from.number)
	if info.sent then generated(tree, f.ackedIn, info.sent.acked) end
	generated(tree, f.acksFrame, info.acks)
	if info.acksTime then
		local d = math.max(0, info.time - info.acksTime)
		local seconds = math.floor(d)
		generated(tree, f.ackTime, NSTime.new(seconds, math.floor((d - seconds) * 1e9 + 0.5)))
	end
	generated(tree, f.resentFrom, info.resentFrom)
	generated(tree, f.replaces, info.replaces)
	generated(tree, f.refuses, info.refuses)
	if info.resentFrom then tree:add_proto_expert_info(x.retransmission) end
	if info.duplicateAck then tree:add_proto_expert_info(x.duplicate_ack) end
end

local function addNotes(tree, p, info)
	local mark = p.kind == FRAG and not has(p.flags, FLAG_PUT) and marks[p.tag]
	if p.kind == NACK then
		tree:add_proto_expert_info(x.refused, "Packet refused" .. (p.tag == 4 and ": " or " for good: ")
			.. (nackReasons[p.tag] or "unknown reason"))
	elseif p.kind == REJECT then
		tree:add_proto_expert_info(x.rejected, "Connection "
			.. (p.tag == REJECT_KEPT and "not decided: " or "refused: ")
			.. (rejectReasons[p.tag] or "unknown reason"))
	elseif mark == "Void" then
		if not (info and info.asks) then tree:add_proto_expert_info(x.voided) end
	elseif mark == "Bye" then
		tree:add_proto_expert_info(x.closes)
	end
end

---- The Info column ------------------------------------------------------------------------------

local summaries = {}

summaries[FRAG] = function(tvb, p, seq)
	if has(p.flags, FLAG_PUT) then
		if tvb:len() < p.headerBytes then return "Put" end
		return string.format("Put %s offset=%s len=%d", seq, tostring(tvb(40, 8):le_uint64()), p.len)
	elseif p.tag > TAG_USER_MAX then
		local text = (marks[p.tag] or "Mark") .. " " .. seq
		if p.tag ~= BYE or p.len ~= 2 or tvb:len() < HEADER + 2 then return text end
		return text .. ": " .. byeText(tvb(HEADER, 2):le_uint())
	end
	return string.format("Frag %s tag=0x%02x len=%d", seq, p.tag, p.len)
end

summaries[CHUNK] = function(tvb, p, seq)
	if tvb:len() < HEADER + EXTRA then return "Chunk" end
	local at = tvb(40, 4):le_uint()
	local what = has(p.flags, FLAG_PUT) and "Put chunk %s frag=%d [%d, %d) of %d"
		or "Chunk %s frag=%d [%d, %d) of %d"
	local text = string.format(what, seq, tvb(32, 4):le_uint(), at, at + p.len,
		tvb(36, 4):le_uint())
	if has(p.flags, FLAG_PUT) then return text end
	return string.format("%s tag=0x%02x", text, p.tag)
end

summaries[ACK] = function() return "Ack" end

summaries[HELLO] = function(tvb, p, seq)
	local text, shown = kinds[p.kind], ""
	if tvb:len() < HEADER + HELLO_BODY then return text end
	eachExtension(tvb, HEADER + HELLO_BODY, function(_, kind)
		if kind == 3 or kind == 4 then shown = ", with cookies" end
	end)
	return string.format("%s (%s%s) %s proven=0x%x len=%d", text,
		channels[tvb(HEADER + 68, 1):uint()] or "no such channel", shown, seq,
		tvb(HEADER + 69, 1):uint(), p.len)
end

summaries[HELLO_ACK] = summaries[HELLO]

summaries[NACK] = function(tvb, p, seq)
	local text = string.format("Nack %s: %s", seq, nackReasons[p.tag] or "unknown reason")
	if p.tag ~= NACK_RECORD or tvb:len() <= HEADER then return text end
	return string.format("%s, tag=0x%02x", text, tvb(HEADER, 1):uint())
end

summaries[PACK] = function(tvb, p, seq)
	local count = 0
	eachRecord(tvb, function(_, captured) count = captured and count + 1 or count end)
	return string.format("Pack %s records=%d len=%d", seq, count, p.len)
end

summaries[REJECT] = function(tvb, p)
	local text = "Reject: " .. (rejectReasons[p.tag] or "unknown reason")
	if tvb:len() < HEADER + 2 then return text end
	return string.format("%s, speaks versions %d to %d", text, tvb(HEADER, 1):uint(),
		tvb(HEADER + 1, 1):uint())
end

summaries[RETRY] = function(tvb)
	if tvb:len() < HEADER + RETRY_HEAD then return "Retry" end
	return string.format("Retry (%s)", channels[tvb(HEADER + 8, 1):uint()] or "no such channel")
end

summaries[PING] = function(tvb, p)
	return string.format("%s, %d bytes", kinds[p.kind], tvb:reported_len())
end

summaries[PONG] = function() return "Pong" end

summaries[PART] = function(tvb, p, seq)
	if tvb:len() < HEADER + PART_HEAD then return "Part " .. seq end
	local at = tvb(HEADER, 4):le_uint()
	return string.format("Part %s [%d, %d) of %d", seq, at, at + p.len - PART_HEAD,
		tvb(HEADER + 4, 4):le_uint())
end

local function summary(tvb, p, info)
	local to = info and info.to
	local seq = p.seq
	if hasSeq[p.kind] or p.kind == PART then
		seq = relative(seq, to and to.peer) or seq
	elseif p.kind == NACK then
		seq = relative(seq, to) or seq
	end
	local text = summaries[p.kind](tvb, p, "seq=" .. string.format("%d", seq))
	if has(p.flags, FLAG_ACK) then
		text = string.format("%s ack=%d credit=%d", text, relative(p.ack, to) or p.ack, p.credit)
	end
	if has(p.flags, FLAG_DUP) then text = text .. " dup" end
	if has(p.flags, FLAG_SACK) then
		text = string.format("%s sack=%d", text, math.max(0, math.floor((p.len - SACK_HEAD) / 4)))
	end
	if info and info.asks then text = text .. " asks" end
	if has(p.flags, FLAG_LATER) then text = text .. " later" end
	if info and info.resentFrom then text = "[Retransmission] " .. text end
	if info and info.duplicateAck then text = "[Duplicate ack] " .. text end
	return text
end

---- Dissection -----------------------------------------------------------------------------------

-- dissectOne shows a packet, or what is none, and returns its line.
local function dissectOne(tvb, pinfo, root, p, broken, index)
	local tree = root:add(gobtl, tvb(0))
	if p and foreign(tvb, p) then
		addForeign(tree, tvb, p)
		local text = string.format("%s of version %d", kinds[p.kind], p.version)
		tree:append_text(", " .. text)
		tree:add_proto_expert_info(x.foreign)
		return text
	end
	local info
	if p then
		if #broken == 0 and gobtl.prefs.analyse then
			if tvb:len() >= math.min(tvb:reported_len(), HEADER + HELLO_BODY) then
				info = analyse(tvb, pinfo, p, index)
			end
		end
		addHeader(tree, tvb, p, info)
		addExtras(tree, tvb, p)
		addPayload(tree, tvb, p)
	end
	local text = p and "not a packet" or "no header"
	if p and #broken == 0 then
		text = summary(tvb, p, info)
		if info then addFindings(tree, info) end
		addNotes(tree, p, info)
	end
	if tvb:len() < tvb:reported_len() then tree:add_proto_expert_info(x.cut) end
	for i, b in ipairs(broken) do
		tree:add_proto_expert_info(x["bad_" .. b[1]], "Not a packet: " .. b[2])
		text = text .. (i == 1 and ": " or "; ") .. b[2]
	end
	tree:append_text(", " .. text)
	return text
end

local function dissect(tvb, pinfo, root, p, broken)
	pinfo.cols.protocol = "gobtl"
	local list = #broken > 0 and p and p.version == 2 and split(tvb)
	if not list then
		pinfo.cols.info = dissectOne(tvb, pinfo, root, p, broken, 1)
		return
	end
	local text
	for i, part in ipairs(list) do
		local line = dissectOne(part[1], pinfo, root, part[2], {}, i)
		text = text or line
	end
	pinfo.cols.info = string.format("%s (and %d more)", text, #list - 1)
	root:add_proto_expert_info(x.joined)
end

-- On a port that was chosen for the protocol every datagram is its own, and shows what is wrong.
function gobtl.dissector(tvb, pinfo, root)
	local p, broken = check(tvb)
	dissect(tvb, pinfo, root, p, broken)
	return tvb:len()
end

-- On all other ports only what is exactly a packet is taken.
gobtl:register_heuristic("udp", function(tvb, pinfo, root)
	local p, broken = check(tvb)
	if not p or #broken > 0 and not split(tvb) then return false end
	dissect(tvb, pinfo, root, p, broken)
	return true
end)

local udpPorts, chosen = DissectorTable.get("udp.port"), ""
udpPorts:add_for_decode_as(gobtl)

function gobtl.prefs_changed()
	if chosen == gobtl.prefs.ports then return end
	if chosen ~= "" then udpPorts:remove(chosen, gobtl) end
	chosen = gobtl.prefs.ports
	if chosen ~= "" then udpPorts:add(chosen, gobtl) end
end
