// Command nas runs kernels of the NAS Parallel Benchmarks over package mpi, of the classes S and W,
// and checks their results against the values that NASA has published:
//
//	ep   pairs of normal deviates, in rings          one sum at the end
//	is   sort of integers by counting                all to all, in parts of different sizes
//	cg   least eigenvalue of a sparse matrix         gather to all, and sums of one number
//	ft   heat in a box, by 3-D Fourier transforms    all to all of everything
//
//	go build . && btlrun -n 4 ./nas --kernel cg --class S
//
// Any number of ranks does for ep, is and cg; ft needs one that divides its grid's smallest side.
// Each kernel is the one of the report "The NAS Parallel Benchmarks" (RNR-94-007) and of NPB 2 and
// 3 where those define it more closely: the random numbers, the sizes, the number of iterations and
// what is compared. The division of the work differs from NPB, so times are not comparable with
// NPB's.
package main
