// Command heat solves the heat equation on a square plate with several processes over package mpi,
// and draws the plate. The plate is cut into a grid of tiles, one for each rank; a tile has a halo,
// one cell wide, with copies of the neighbours' edge cells:
//
//	+---------+---------+     in each step, with each of up to four neighbours:
//	|  rank 0 | rank 1  |       RecvInit once, Start: its edge -> my halo
//	|       <-+->       |       SendInit once, Start: my edge  -> its halo
//	+----|^---+---|^----+     the cells that need no halo are computed meanwhile, then WaitAll, then
//	|    v|   |   v|    |     the cells along the edges.
//	|  rank 2 | rank 3  |
//	+---------+---------+
//
//	go build . && btlrun -n 4 ./heat --cells 256 --steps 2000 --picture plate.png
//
// The ranks are a Cartesian communicator; the edges are layouts, a row of one block, a column of
// many. Rank 0 gathers the plate, solves the same alone, and compares bit by bit: the order of
// additions in a cell is the same, so nothing may differ.
package main
