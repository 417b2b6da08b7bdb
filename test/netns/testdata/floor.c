/*
 * A floor for streams of datagrams: a window of datagrams, and nothing else. No retransmission, no
 * congestion control, no messages. Both ends sleep in poll while there is nothing to do.
 *
 *   floor serve PORT
 *   floor send ADDRESS PORT DATAGRAM_BYTES WINDOW_DATAGRAMS SECONDS
 *
 * The receiver answers each run of datagrams that one system call has delivered with the number of
 * datagrams that have arrived and the highest number seen. The sender sends trains (UDP_SEGMENT) of
 * up to TRAIN datagrams while fewer than WINDOW_DATAGRAMS are on their way, counts gaps below the
 * highest number as lost, and prints the payload that arrived, in MB/s, and the lost percentage.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum { TRAIN = 44, TRAIN_BYTES = 65000, BUFFER_BYTES = 4 << 20, STALL_MS = 50 };

struct ack {
	uint64_t run;     /* which run of the sender */
	uint64_t arrived; /* datagrams of that run that have arrived */
	uint64_t highest; /* the highest number among them, plus one */
};

static char bytes[1 << 16];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int open_socket(void)
{
	int size = BUFFER_BYTES, fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0)
		die("socket");
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	return fd;
}

/* segment_size is the size of each datagram of a message that the kernel has coalesced. */
static int segment_size(struct msghdr *m, int whole)
{
	struct cmsghdr *c;
	for (c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO)
			memcpy(&whole, CMSG_DATA(c), sizeof whole);
	return whole;
}

static void serve(int port)
{
	int one = 1, fd = open_socket();
	struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)}, from;
	struct ack ack = {0, 0, 0};
	char control[64];

	if (bind(fd, (struct sockaddr *)&here, sizeof here) < 0)
		die("bind");
	setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof one);
	puts("listening");
	fflush(stdout);
	for (;;) {
		int heard = 0, flags = 0;
		for (;; flags = MSG_DONTWAIT) { /* wait for the first, then take what is there */
			struct iovec v = {bytes, sizeof bytes};
			struct msghdr m = {&from, sizeof from, &v, 1, control, sizeof control, 0};
			ssize_t n = recvmsg(fd, &m, flags);
			if (n < 16 || heard >= 64)
				break;
			int size = segment_size(&m, (int)n);
			for (char *p = bytes; p < bytes + n; p += size, heard++) {
				uint64_t head[2];
				memcpy(head, p, sizeof head);
				if (head[0] != ack.run)
					ack = (struct ack){head[0], 0, 0};
				ack.arrived++;
				if (head[1] >= ack.highest)
					ack.highest = head[1] + 1;
			}
		}
		if (heard)
			sendto(fd, &ack, sizeof ack, 0, (struct sockaddr *)&from, sizeof from);
	}
}

/* post sends datagrams [next, next+count) as one train. */
static void post(int fd, int size, uint64_t run, uint64_t next, int count)
{
	char control[CMSG_SPACE(sizeof(uint16_t))] = {0};
	struct iovec v = {bytes, (size_t)size * (size_t)count};
	struct msghdr m = {NULL, 0, &v, 1, control, sizeof control, 0};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	uint16_t segment = (uint16_t)size;

	for (int i = 0; i < count; i++) {
		uint64_t head[2] = {run, next + (uint64_t)i};
		memcpy(bytes + i * size, head, sizeof head);
	}
	c->cmsg_level = SOL_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof segment);
	memcpy(CMSG_DATA(c), &segment, sizeof segment);
	if (sendmsg(fd, &m, 0) < 0)
		die("sendmsg");
}

static void run_sender(int fd, int size, uint64_t window, double length)
{
	uint64_t run = (uint64_t)time(NULL) << 20 | (uint64_t)getpid(), next = 0, lost = 0;
	struct ack ack = {run, 0, 0}, got;
	struct pollfd p = {fd, POLLIN, 0};
	int train = TRAIN_BYTES / size < TRAIN ? TRAIN_BYTES / size : TRAIN;
	double began = seconds(), took;

	while ((took = seconds() - began) < length) {
		while (next - ack.highest < window) {
			uint64_t room = window - (next - ack.highest);
			int count = room < (uint64_t)train ? (int)room : train;
			post(fd, size, run, next, count);
			next += (uint64_t)count;
		}
		if (poll(&p, 1, STALL_MS) == 0) { /* all of them are lost, or the last answer is */
			ack.highest = next;
			continue;
		}
		while (recv(fd, &got, sizeof got, MSG_DONTWAIT) == sizeof got)
			if (got.run == run && got.arrived > ack.arrived) {
				ack.arrived = got.arrived;
				if (got.highest > ack.highest)
					ack.highest = got.highest;
			}
	}
	lost = ack.highest - ack.arrived;
	printf("%.1f MB/s %.3f %% lost\n", (double)ack.arrived * size / took / 1e6,
		100.0 * (double)lost / (double)(ack.highest ? ack.highest : 1));
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET};

	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		serve(atoi(argv[2]));
	if (argc != 7 || strcmp(argv[1], "send") != 0 || inet_aton(argv[2], &to.sin_addr) == 0) {
		fputs("floor serve PORT | floor send ADDRESS PORT BYTES WINDOW SECONDS\n", stderr);
		return 2;
	}
	int fd = open_socket(), size = atoi(argv[4]), window = atoi(argv[5]);
	to.sin_port = htons((uint16_t)atoi(argv[3]));
	if (size < 16 || size > TRAIN_BYTES || window < 1) {
		fputs("floor: a datagram has 16 to 65000 bytes, a window at least 1 datagram\n", stderr);
		return 2;
	}
	if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
		die("connect");
	run_sender(fd, size, (uint64_t)window, atof(argv[6]));
	return 0;
}
