// Package stranger2 is a second peer written from docs/protocol.md alone, by somebody who had not
// read the codec nor the first one (test/stranger), and shares no code with either. It has the
// whole codec, but as a peer only the initiator's handshake, single Frags, refusals and junk.
// Only its tests know the real module, as the other side.
package stranger2
