package remote

import "testing"

// The end of one of many answers that read a region takes no longer than the end of the only one.
func TestReadersPlaces(t *testing.T) {
	b := newTwo(t, Read)
	var all []*operation
	for range AsksMax {
		all = append(all, b.service.AnswerGet(b.peer, nil, 1, &b.region))
	}
	for i, o := range all {
		if b.readers[o.reader] != o {
			t.Fatalf("answer %d is reader %d, which is another", i, o.reader)
		}
	}
	for i := range all { // in another order than that of their beginning
		b.service.EndAnswer(b.peer, all[i*101%len(all)])
		b.check()
	}
	if b.Reader() != nil || b.peer.Owed() != 0 {
		t.Errorf("%d are owed, the region is read: %v", b.peer.Owed(), b.Reader() != nil)
	}
}
