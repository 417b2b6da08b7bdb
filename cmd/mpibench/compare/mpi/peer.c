/*
 * What mpibench measures, by an MPI: the same loops, the same samples, the same lines.
 *
 *   peer CPUS MILLISECONDS WINDOW TESTS SIZES
 *
 * CPUS is "none", or the numbers to which the ranks are pinned in turn, as "0,1"; TESTS and SIZES
 * are lists with commas between; the barrier has the first size alone. Rank 0 writes a line of JSON
 * for each test and size.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { SAMPLES_MAX = 1 << 20, WINDOW_MAX = 1 << 12, WARM_UP = 16 };

static double samples[SAMPLES_MAX];
static long sampled;
static MPI_Request requests[WINDOW_MAX];
static int rank, ranks, size, window;
static char *in, *out;
static MPI_Comm comm = MPI_COMM_NULL;

/* record takes a sample down that began at an instant, and returns the one at which it ends. */
static double record(double begin)
{
	double end = MPI_Wtime();
	if (sampled < SAMPLES_MAX)
		samples[sampled++] = end - begin;
	return end;
}

/* latency's round trips each begin where the one before ended. */
static void latency(long n)
{
	double begin = MPI_Wtime();
	for (long i = 0; i < n; i++) {
		if (rank == 0) {
			MPI_Send(out, size, MPI_BYTE, 1, 1, comm);
			MPI_Recv(in, size, MPI_BYTE, 1, 1, comm, MPI_STATUS_IGNORE);
			begin = record(begin);
		} else {
			MPI_Recv(in, size, MPI_BYTE, 0, 1, comm, MPI_STATUS_IGNORE);
			MPI_Send(out, size, MPI_BYTE, 0, 1, comm);
		}
	}
}

/* windows sends windows from the lower half of the ranks to the upper one, each answered. */
static void windows(long n)
{
	int half = ranks / 2, sends = rank < half, peer = (rank + half) % (2 * half);
	char answer = 0;
	for (long i = 0; i < n; i++) {
		double begin = MPI_Wtime();
		for (int k = 0; k < window; k++) {
			if (sends)
				MPI_Isend(out, size, MPI_BYTE, peer, 1, comm, &requests[k]);
			else
				MPI_Irecv(in, size, MPI_BYTE, peer, 1, comm, &requests[k]);
		}
		MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
		if (sends) {
			MPI_Recv(&answer, 1, MPI_BYTE, peer, 2, comm, MPI_STATUS_IGNORE);
			record(begin);
		} else {
			MPI_Send(&answer, 1, MPI_BYTE, peer, 2, comm);
		}
	}
}

static void barrier(void) { MPI_Barrier(comm); }
static void bcast(void) { MPI_Bcast(out, size, MPI_BYTE, 0, comm); }
static void allreduce(void)
{
	MPI_Allreduce(out, in, size / (int)sizeof(double), MPI_DOUBLE, MPI_SUM, comm);
}
static void reduce(void)
{
	MPI_Reduce(out, in, size / (int)sizeof(double), MPI_DOUBLE, MPI_SUM, 0, comm);
}
static void allgather(void) { MPI_Allgather(out, size, MPI_BYTE, in, size, MPI_BYTE, comm); }
static void alltoall(void) { MPI_Alltoall(out, size, MPI_BYTE, in, size, MPI_BYTE, comm); }

static void (*operation)(void);

static void operations(long n)
{
	for (long i = 0; i < n; i++) {
		if (operation != barrier)
			MPI_Barrier(comm);
		double begin = MPI_Wtime();
		operation();
		record(begin);
	}
}

static const struct test {
	const char *name;
	void (*run)(long);
	void (*operation)(void);
	double share;   /* what a sample is of the time that is told */
	double per;     /* of rates: what a message of a byte, or any message, counts */
	int bytes, two; /* of rates: a message counts its bytes; ranks 0 and 1 alone */
} tests[] = {
	{"latency", latency, NULL, 2, 0, 0, 1},
	{"bw", windows, NULL, 1, 1e-6, 1, 1},
	{"mbw_mr", windows, NULL, 1, 1, 0, 0},
	{"barrier", operations, barrier, 1, 0, 0, 0},
	{"bcast", operations, bcast, 1, 0, 0, 0},
	{"reduce", operations, reduce, 1, 0, 0, 0},
	{"allreduce", operations, allreduce, 1, 0, 0, 0},
	{"allgather", operations, allgather, 1, 0, 0, 0},
	{"alltoall", operations, alltoall, 1, 0, 0, 0},
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double at(double share) { return samples[(long)(share * (double)(sampled - 1))]; }

/* tell has rank 0 write what all have measured: the slowest's times, or the sum of the rates. */
static void tell(const struct test *x)
{
	double mine[3] = {0, 0, 0}, all[3];
	qsort(samples, (size_t)sampled, sizeof samples[0], by_value);
	if (sampled > 0 && x->per == 0) {
		double times[3] = {at(0.5), at(0.99), at(0)};
		for (int i = 0; i < 3; i++)
			mine[i] = times[i] * 1e6 / x->share;
	} else if (sampled > 0) {
		double times[3] = {at(0.5), at(0.01), at(1)};
		for (int i = 0; i < 3; i++)
			mine[i] = window * x->per * (x->bytes ? size : 1) / times[i];
	}
	MPI_Reduce(mine, all, 3, MPI_DOUBLE, x->per == 0 ? MPI_MAX : MPI_SUM, 0, comm);
	if (rank != 0)
		return;
	printf("{\"schema\":\"gobtl-mpibench/1\",\"test\":\"%s\",\"size\":%d,\"ranks\":%d,"
	       "\"unit\":\"%s\",\"median\":%.6g,\"p99\":%.6g,\"min\":%.6g}\n",
	       x->name, x->operation == barrier ? 0 : size, ranks,
	       x->per == 0 ? "us" : x->bytes ? "MB/s" : "messages/s", all[0], all[1], all[2]);
	fflush(stdout);
}

/* measure runs as many iterations as fill the time. Rank 0 decides, and tells. */
static void measure(const struct test *x, double wanted)
{
	long plan[2] = {WARM_UP, 0};
	operation = x->operation;
	for (;;) {
		sampled = 0;
		double begin = MPI_Wtime();
		x->run(plan[0]);
		if (plan[1] == 1)
			break;
		double took = MPI_Wtime() - begin;
		if (took * 10 < wanted) {
			plan[0] *= 4;
		} else {
			plan[0] = (long)((double)plan[0] * wanted / took);
			if (plan[0] < 1)
				plan[0] = 1;
			plan[1] = 1;
		}
		MPI_Bcast(plan, 2, MPI_LONG, 0, comm);
	}
	tell(x);
}

/* pin pins this rank, all of which are on one host. */
static void pin(const char *list)
{
	cpu_set_t set;
	int cpus[CPU_SETSIZE], n = 0;
	if (strcmp(list, "none") == 0)
		return;
	for (const char *p = list; n < CPU_SETSIZE; p++) {
		cpus[n++] = atoi(p);
		if ((p = strchr(p, ',')) == NULL)
			break;
	}
	CPU_ZERO(&set);
	CPU_SET(cpus[rank % n], &set);
	if (sched_setaffinity(0, sizeof set, &set) != 0)
		perror("sched_setaffinity");
}

static void one(const char *name, int bytes, int all, int wanted_window, double wanted)
{
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
		const struct test *x = &tests[i];
		if (strcmp(x->name, name) != 0)
			continue;
		ranks = x->two ? 2 : all;
		size = bytes;
		window = wanted_window;
		if (size > 0 && window > (64 << 20) / size)
			window = (64 << 20) / size > 2 ? (64 << 20) / size : 2;
		size_t room = (size_t)size * (size_t)ranks + 1;
		in = calloc(room, 1);
		out = calloc(room, 1);
		if (in == NULL || out == NULL)
			MPI_Abort(MPI_COMM_WORLD, 1);
		MPI_Comm_split(MPI_COMM_WORLD, rank < ranks ? 0 : MPI_UNDEFINED, rank, &comm);
		if (rank < ranks) {
			measure(x, wanted);
			MPI_Comm_free(&comm);
		}
		MPI_Barrier(MPI_COMM_WORLD);
		free(in);
		free(out);
		return;
	}
	fprintf(stderr, "no test %s\n", name);
	MPI_Abort(MPI_COMM_WORLD, 2);
}

/* leave ends this process, whose figures are all told. */
static void leave(int signal)
{
	(void)signal;
	_exit(0);
}

int main(int argc, char **argv)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* never outlives its launcher */
	MPI_Init(&argc, &argv);
	int all, wanted_window = 0;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	if (argc != 6 || (wanted_window = atoi(argv[3])) < 1 || wanted_window > WINDOW_MAX || all < 2) {
		fprintf(stderr, "usage: peer CPUS MILLISECONDS WINDOW TESTS SIZES, two ranks or more\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	pin(argv[1]);
	char *more_tests = NULL;
	for (char *t = strtok_r(argv[4], ",", &more_tests); t != NULL;
	     t = strtok_r(NULL, ",", &more_tests)) {
		char *list = strdup(argv[5]), *more = NULL;
		for (char *s = strtok_r(list, ",", &more); s != NULL; s = strtok_r(NULL, ",", &more)) {
			one(t, atoi(s), all, wanted_window, atof(argv[2]) / 1e3);
			if (strcmp(t, "barrier") == 0)
				break;
		}
		free(list);
	}
	/* MPICH over UCX's TCP does not always come out of it, least of all where ranks share a CPU. */
	signal(SIGALRM, leave);
	alarm(2);
	MPI_Finalize();
	return 0;
}
