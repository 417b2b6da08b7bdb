package btl

import "testing"

// A refusal says what is wrong, of which bytes, and what the region would have to allow.
func TestAccessErrorWords(t *testing.T) {
	e := AccessError{Handle: 0xab, Offset: 64, SizeBytes: 8, Needs: RemoteWrite | RemoteNotify}
	const refused = "btl: remote memory access refused: "
	const what = "; 8 bytes at 64 of region 0xab, which need the right to write, notify"
	for reason, want := range map[AccessReason]string{
		ReasonRegion: "no region of that handle is exposed to this side",
		ReasonBounds: "not all bytes are in the region, or a number is not aligned",
		ReasonRight:  "the region's owner has not given the right",
		77:           "reason 77",
	} {
		if e.Reason = reason; e.Error() != refused+want+what {
			t.Errorf("%s", e.Error())
		}
	}
}
