package pml

import (
	"slices"
	"testing"
)

// TestCompletions checks that OnDone of requests is called in the order in which the requests
// ended, once for each end, and never during another OnDone.
func TestCompletions(t *testing.T) {
	c := newCompletions()
	var order []string
	inside := false
	request := func(name string, more func()) *Request {
		return &Request{state: landing, OnDone: func(r *Request) {
			if inside || !r.Done() {
				t.Errorf("OnDone of %s: inside another one %v, done %v", name, inside, r.Done())
			}
			inside = true
			order = append(order, name)
			if more != nil {
				more()
			}
			inside = false
		}}
	}
	third, fourth := request("third", nil), request("fourth", nil)
	first := request("first", func() {
		c.tell(third)
		c.add(fourth)
		c.settle()
		if third.Done() || fourth.Done() {
			t.Error("a request is done before its OnDone")
		}
	})
	c.add(first)
	if c.empty() || first.Done() {
		t.Fatal("OnDone is not outstanding")
	}
	c.tell(request("second", nil))
	c.tell(&Request{state: landing}) // without OnDone
	if want := []string{"first", "second", "third", "fourth"}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
	if !c.empty() || !third.Done() || !fourth.Done() {
		t.Error("requests are not done")
	}
}
