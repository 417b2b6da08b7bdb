/*
 * The floor of mpibench: what its latency and bw measure, over a TCP connection of loopback.
 *
 *   tcp CPUS MILLISECONDS WINDOW TESTS SIZES WAIT MTU
 *
 * CPUS is "none", or the numbers to which the two processes are pinned in turn, as "0,1". TESTS
 * and SIZES are lists with commas between. WAIT is "block" or "poll". MTU is the MTU of a network
 * to which the segments are limited, or 0. A bw window ends with an answer of one byte. The first
 * process writes a line of JSON for each test and size.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLES_MAX = 1 << 20, WARM_UP = 16 };

static double samples[SAMPLES_MAX];
static long sampled;
static int conn, first, flags;
static char *in, *out;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double record(double begin)
{
	double end = now();
	if (sampled < SAMPLES_MAX)
		samples[sampled++] = end - begin;
	return end;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* transfer moves n bytes by send or recv; a poller tries until the socket takes or has some. */
static void transfer(int sends, char *p, long n)
{
	while (n > 0) {
		ssize_t did = sends ? send(conn, p, (size_t)n, flags) : recv(conn, p, (size_t)n, flags);
		if (did > 0) {
			p += did;
			n -= did;
		} else if (did == 0 || errno != EAGAIN) {
			fail(sends ? "send" : "recv");
		}
	}
}

static void latency(long n, int size, int window)
{
	double begin = now();
	(void)window;
	for (long i = 0; i < n; i++) {
		transfer(first, first ? out : in, size);
		transfer(!first, first ? in : out, size);
		begin = record(begin);
	}
}

static void windows(long n, int size, int window)
{
	char answer = 0;
	for (long i = 0; i < n; i++) {
		double begin = now();
		for (int k = 0; k < window; k++)
			transfer(first, first ? out : in, size);
		transfer(!first, &answer, 1);
		record(begin);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double at(double share) { return samples[(long)(share * (double)(sampled - 1))]; }

static void tell(int rate, int size, int window)
{
	double v[3];
	qsort(samples, (size_t)sampled, sizeof samples[0], by_value);
	for (int i = 0; i < 3; i++) {
		double s = at(rate ? (double[]){0.5, 0.01, 1}[i] : (double[]){0.5, 0.99, 0}[i]);
		v[i] = rate ? 1e-6 * window * size / s : s * 1e6 / 2;
	}
	printf("{\"schema\":\"gobtl-mpibench/1\",\"test\":\"%s\",\"size\":%d,\"ranks\":2,"
	       "\"unit\":\"%s\",\"median\":%.6g,\"p99\":%.6g,\"min\":%.6g}\n",
	       rate ? "bw" : "latency", size, rate ? "MB/s" : "us", v[0], v[1], v[2]);
	fflush(stdout);
}

/* measure runs as many iterations as fill the time. The first process decides. */
static void measure(int rate, int size, int window, double wanted)
{
	long n = WARM_UP, last = 0;
	if (window > (64 << 20) / size)
		window = (64 << 20) / size > 2 ? (64 << 20) / size : 2;
	for (;;) {
		sampled = 0;
		double begin = now();
		(rate ? windows : latency)(n, size, window);
		if (last)
			break;
		double took = now() - begin;
		last = took * 10 >= wanted;
		n = last ? (long)((double)n * wanted / took) + 1 : n * 4;
		transfer(first, (char *)&n, sizeof n);
		transfer(first, (char *)&last, sizeof last);
	}
	if (first)
		tell(rate, size, window);
}

static void pin(const char *list, int number)
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
	CPU_SET(cpus[number % n], &set);
	if (sched_setaffinity(0, sizeof set, &set) != 0)
		perror("sched_setaffinity");
}

/* limit limits the segments of a socket that is not connected yet. */
static void limit(int s, int mtu)
{
	int segment = mtu - 40;
	if (mtu > 0 && setsockopt(s, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment) != 0)
		fail("TCP_MAXSEG");
}

/* join connects the two processes, and returns in both of them. */
static void join(int mtu)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof a;
	int one = 1, l = socket(AF_INET, SOCK_STREAM, 0);
	limit(l, mtu);
	if (l < 0 || bind(l, (struct sockaddr *)&a, n) != 0 || listen(l, 1) != 0 ||
	    getsockname(l, (struct sockaddr *)&a, &n) != 0)
		fail("listen");
	pid_t child = fork();
	if (child < 0)
		fail("fork");
	first = child != 0;
	if (first) {
		conn = accept(l, NULL, NULL);
	} else {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		conn = socket(AF_INET, SOCK_STREAM, 0);
		limit(conn, mtu);
		if (connect(conn, (struct sockaddr *)&a, n) != 0)
			fail("connect");
	}
	if (conn < 0 || setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
		fail("accept");
	close(l);
}

int main(int argc, char **argv)
{
	int window;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* never outlives its launcher */
	if (argc != 8 || (window = atoi(argv[3])) < 1) {
		fprintf(stderr, "usage: tcp CPUS MILLISECONDS WINDOW TESTS SIZES block|poll MTU\n");
		return 2;
	}
	flags = MSG_NOSIGNAL | (strcmp(argv[6], "poll") == 0 ? MSG_DONTWAIT : 0);
	join(atoi(argv[7]));
	pin(argv[1], !first);
	char *more_tests = NULL;
	for (char *t = strtok_r(argv[4], ",", &more_tests); t != NULL;
	     t = strtok_r(NULL, ",", &more_tests)) {
		char *list = strdup(argv[5]), *more = NULL;
		for (char *s = strtok_r(list, ",", &more); s != NULL; s = strtok_r(NULL, ",", &more)) {
			int size = atoi(s);
			in = calloc((size_t)size, 1);
			out = calloc((size_t)size, 1);
			if (size < 1 || in == NULL || out == NULL)
				fail("calloc");
			measure(strcmp(t, "bw") == 0, size, window, atof(argv[2]) / 1e3);
			free(in);
			free(out);
		}
		free(list);
	}
	return 0;
}
