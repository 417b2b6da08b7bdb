package main

// cpusMax is one more than the largest CPU number that sched_setaffinity's fixed mask holds.
const cpusMax = 1024
