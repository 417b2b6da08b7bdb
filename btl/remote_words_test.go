package btl

import (
	"testing"

	"gobtl/btl/internal/peer"
)

// A refusal says what is wrong, of which bytes, and what the region would have to allow.
func TestAccessErrorWords(t *testing.T) {
	e := peer.AccessError{Handle: 0xab, Offset: 64, SizeBytes: 8, Needs: RemoteWrite | RemoteNotify}
	const refused = "btl: remote memory access refused: "
	const what = "; 8 bytes at 64 of region 0xab, which need the right to write, notify"
	for reason, want := range map[peer.AccessReason]string{
		peer.ReasonRegion: "no region of that handle is exposed to this side",
		peer.ReasonBounds: "not all bytes are in the region, or a number is not aligned",
		peer.ReasonRight:  "the region's owner has not given the right",
		77:                "reason 77",
	} {
		if e.Reason = reason; e.Error() != refused+want+what {
			t.Errorf("%s", e.Error())
		}
	}
}
