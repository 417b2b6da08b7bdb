/*
 * Latency, stream and rate between the two ranks of an MPI job.
 *
 *   peer CPUS MILLISECONDS POINT...
 *
 * CPUS is "none" or one number a rank, as "0,1". A POINT is WORKLOAD:SIZE:WINDOW:
 *
 *   latency  ping-pong; half a mean round trip and half the median one, in us
 *   stream   windows of messages from rank 0 to rank 1, one answer after the last; MB/s
 *   rate     windows of messages, each answered before the next begins; messages/s
 *
 * Rank 0 writes a line for each: the point, its value, and the median (0 if it has none).
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { SAMPLES_MAX = 1 << 20, WINDOW_MAX = 1 << 12, WARM_UP = 16 };

static double samples[SAMPLES_MAX];
static MPI_Request requests[WINDOW_MAX];
static int rank, size, window;
static char *buffer;

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void answer(int from)
{
	if (rank == from)
		MPI_Send(NULL, 0, MPI_BYTE, 1 - from, 2, MPI_COMM_WORLD);
	else
		MPI_Recv(NULL, 0, MPI_BYTE, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void one_window(void)
{
	for (int i = 0; i < window; i++) {
		if (rank == 0)
			MPI_Isend(buffer, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[i]);
		else
			MPI_Irecv(buffer, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[i]);
	}
	MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
}

static void latency(long n)
{
	for (long i = 0; i < n; i++) {
		double begin = MPI_Wtime();
		if (rank == 0) {
			MPI_Send(buffer, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
			MPI_Recv(buffer, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(buffer, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(buffer, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
		}
		if (i < SAMPLES_MAX)
			samples[i] = MPI_Wtime() - begin;
	}
}

static void stream(long n)
{
	for (long i = 0; i < n; i++)
		one_window();
	answer(1);
}

static void rate(long n)
{
	for (long i = 0; i < n; i++) {
		one_window();
		answer(1);
	}
}

/* seconds runs n iterations on both ranks; rank 0 says how many. */
static double seconds(void (*run)(long), long n)
{
	MPI_Bcast(&n, 1, MPI_LONG, 0, MPI_COMM_WORLD);
	double begin = MPI_Wtime();
	run(n);
	return MPI_Wtime() - begin;
}

/* measure finds out how many iterations fill the time, and runs them. Rank 1 follows rank 0: both
 * learn from a broadcast whether the next run is the last. */
static void measure(const char *name, void (*run)(long), double wanted)
{
	long n = WARM_UP;
	double took = 0;
	int last = 0;
	while (!last) {
		took = seconds(run, n);
		if (rank == 0) {
			last = took > wanted / 10;
			long next = last ? (long)(n * (wanted / took)) : 4 * n;
			n = next > 1 ? next : 1;
		}
		MPI_Bcast(&last, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	took = seconds(run, n);
	if (rank != 0)
		return;
	double value = 0, median = 0;
	if (run == latency) {
		long kept = n < SAMPLES_MAX ? n : SAMPLES_MAX;
		qsort(samples, (size_t)kept, sizeof samples[0], by_value);
		value = took / (double)n / 2 * 1e6;
		median = samples[kept / 2] / 2 * 1e6;
	} else {
		value = (double)n * window / took;
		if (run == stream)
			value *= size / 1e6;
	}
	printf("%s %d %d %.6g %.6g\n", name, size, window, value, median);
	fflush(stdout);
}

static void pin(const char *list)
{
	const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
	int cpus[2];
	int n = sscanf(list, "%d,%d", &cpus[0], &cpus[1]);
	if (n < 1 || local == NULL)
		return;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpus[atoi(local) % n], &set);
	if (sched_setaffinity(0, sizeof set, &set) != 0)
		perror("sched_setaffinity");
}

int main(int argc, char **argv)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* never outlives mpirun */
	if (argc < 4) {
		fprintf(stderr, "usage: peer CPUS MILLISECONDS POINT...\n");
		return 2;
	}
	pin(argv[1]);
	MPI_Init(&argc, &argv);
	int ranks;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks != 2) {
		fprintf(stderr, "two ranks are needed\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	for (int i = 3; i < argc; i++) {
		char name[16];
		if (sscanf(argv[i], "%15[a-z]:%d:%d", name, &size, &window) != 3 || size < 0 ||
		    window < 1 || window > WINDOW_MAX) {
			fprintf(stderr, "point %s: write WORKLOAD:SIZE:WINDOW\n", argv[i]);
			MPI_Abort(MPI_COMM_WORLD, 2);
		}
		buffer = malloc((size_t)size + 1);
		if (buffer == NULL)
			MPI_Abort(MPI_COMM_WORLD, 1);
		memset(buffer, 1, (size_t)size + 1);
		void (*run)(long) = strcmp(name, "latency") == 0  ? latency
				    : strcmp(name, "stream") == 0 ? stream
								  : rate;
		measure(name, run, atof(argv[2]) / 1e3);
		free(buffer);
	}
	MPI_Finalize();
	return 0;
}
