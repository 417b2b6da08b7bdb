package mpi_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gobtl/mpi"
)

// whichTake are the exported functions of the package's files that take a context, methods with the
// name of their type in front.
func whichTake(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() || len(fn.Type.Params.List) == 0 {
				continue
			}
			first, ok := fn.Type.Params.List[0].Type.(*ast.SelectorExpr)
			if !ok || first.Sel.Name != "Context" {
				continue
			}
			of := ""
			if fn.Recv != nil {
				star := fn.Recv.List[0].Type.(*ast.StarExpr).X
				if generic, ok := star.(*ast.IndexExpr); ok {
					star = generic.X
				}
				of = star.(*ast.Ident).Name + "."
			}
			names = append(names, of+fn.Name.Name)
		}
	}
	return names
}

// second is the error of a call that returns something else as well.
func second[T any](_ T, err error) error { return err }

// nilCalls are the calls of a world of one rank with a nil context, by name.
//
//nolint:funlen // a table
func nilCalls(w *mpi.World, win *mpi.Window[int64], g *mpi.Cart, l *mpi.Layout[int64],
) map[string]error {
	var none context.Context
	c, v, op := &w.Comm, make([]int64, 4), mpi.Sum[int64]()
	counts, at := []int{4}, []int{0}
	r := new(mpi.Request)
	third := func(_, _ any, err error) error { return err }
	_, _, mprobe := mpi.Mprobe(none, c, 0, 1)
	return map[string]error{
		"Init": second(mpi.Init(none, mpi.Config{})), "Open": second(mpi.Open(none, nil, mpi.Config{})),
		"World.Finalize": w.Finalize(none),
		"Send":           mpi.Send(none, c, v, 0, 1), "SendSync": mpi.SendSync(none, c, v, 0, 1),
		"Recv":            second(mpi.Recv(none, c, v, 0, 1)),
		"Sendrecv":        second(mpi.Sendrecv(none, c, v, 0, 1, v, 0, 1)),
		"SendrecvReplace": second(mpi.SendrecvReplace(none, c, v, 0, 1, 0, 1)),
		"Probe":           second(mpi.Probe(none, c, 0, 1)), "Mprobe": mprobe,
		"Mrecv":        second(mpi.Mrecv(none, nil, v)),
		"Request.Wait": second(r.Wait(none)), "WaitAll": mpi.WaitAll(none, nil, r),
		"WaitAny": third(mpi.WaitAny(none, r)), "WaitSome": second(mpi.WaitSome(none, nil, r)),
		"Barrier": mpi.Barrier(none, c), "Bcast": mpi.Bcast(none, c, v, 0),
		"Reduce": mpi.Reduce(none, c, v, v, op, 0), "Allreduce": mpi.Allreduce(none, c, v, v, op),
		"Gather": mpi.Gather(none, c, v, v, 0), "Gatherv": mpi.Gatherv(none, c, v, v, counts, 0),
		"Scatter": mpi.Scatter(none, c, v, v, 0), "Scatterv": mpi.Scatterv(none, c, v, v, counts, 0),
		"Allgather": mpi.Allgather(none, c, v, v), "Allgatherv": mpi.Allgatherv(none, c, v, v, counts),
		"Alltoall":      mpi.Alltoall(none, c, v, v),
		"Alltoallv":     mpi.Alltoallv(none, c, v, counts, v, counts),
		"ReduceScatter": mpi.ReduceScatter(none, c, v, v, counts, op),
		"Scan":          mpi.Scan(none, c, v, v, op), "Exscan": mpi.Exscan(none, c, v, v, op),
		"Comm.Dup": second(c.Dup(none)), "Comm.SplitByNode": second(c.SplitByNode(none)),
		"Comm.Split": second(c.Split(none, 0, 0)), "Comm.Create": second(c.Create(none, c.Group())),
		"Comm.CreateGroup": second(c.CreateGroup(none, c.Group(), 1)),
		"Comm.Agree":       second(c.Agree(none, 0)), "Comm.Shrink": second(c.Shrink(none)),
		"NewCart":  second(mpi.NewCart(none, c, []int{1}, []bool{true})),
		"Cart.Sub": second(g.Sub(none, []bool{true})), "NewWindow": second(mpi.NewWindow(none, c, v)),
		"Window.Put": win.Put(none, v, 0, 0), "Window.Get": win.Get(none, v, 0, 0),
		"Window.Accumulate":     win.Accumulate(none, v, 0, 0, op),
		"Window.GetAccumulate":  win.GetAccumulate(none, v, v, 0, 0, op),
		"Window.FetchAndOp":     second(win.FetchAndOp(none, 1, 0, at[0], op)),
		"Window.CompareAndSwap": second(win.CompareAndSwap(none, 0, 1, 0, 0)),
		"Window.Flush":          win.Flush(none, 0), "Window.FlushAll": win.FlushAll(none),
		"Window.Fence": win.Fence(none), "Window.Lock": win.Lock(none, 0, true),
		"Window.Unlock": win.Unlock(none, 0), "Window.LockAll": win.LockAll(none),
		"Window.UnlockAll": win.UnlockAll(none), "Window.Free": win.Free(none),
		"Layout.Send": l.Send(none, c, 0, 1), "Layout.SendSync": l.SendSync(none, c, 0, 1),
		"Layout.Recv": second(l.Recv(none, c, 0, 1)), "Layout.Bcast": l.Bcast(none, c, 0),
		"Layout.Gather": l.Gather(none, c, v, 0), "Layout.Allgather": l.Allgather(none, c, v),
		"Layout.Scatter": l.Scatter(none, c, v, 0), "Layout.Put": l.Put(none, win, 0, 0),
		"Layout.Get": l.Get(none, win, 0, 0), "Layout.Accumulate": l.Accumulate(none, win, 0, 0, op),
	}
}

// A call with a nil context is refused, each that takes one, and nothing has begun: the world goes
// on.
func TestNilContext(t *testing.T) {
	run(t, "udp", 1, func(ctx context.Context, w *mpi.World) error {
		win, err := mpi.NewWindow(ctx, &w.Comm, make([]int64, 4))
		if err != nil {
			return err
		}
		g, err := mpi.NewCart(ctx, &w.Comm, []int{1}, []bool{true})
		if err != nil {
			return err
		}
		l, err := mpi.Indexed(make([]int64, 4), []int{0}, []int{4})
		if err != nil {
			return err
		}
		got := nilCalls(w, win, g, l)
		want := slices.Sorted(slices.Values(whichTake(t)))
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
			t.Errorf("tested are\n%q\nwant\n%q", names, want)
		}
		for name, err := range got {
			if !errors.Is(err, mpi.ErrContext) {
				t.Errorf("%s: %v, want ErrContext", name, err)
			}
		}
		for at, x := range win.Mem() {
			if x != 0 {
				t.Errorf("value %d of the window is %d", at, x)
			}
		}
		return win.Free(ctx)
	})
}
