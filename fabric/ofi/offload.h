// offload.h: what the two halves of segmentation offload share.
#ifndef GOBTL_OFI_OFFLOAD_H
#define GOBTL_OFI_OFFLOAD_H

#include "internal.h"

#include <errno.h>
#include <sys/socket.h>

#include <sys/uio.h>

#ifndef SOL_UDP
#define SOL_UDP 17
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum {
	STAGE_BYTES = 1 << 16, // more than any datagram has
	RUN_SEGMENTS = 64,     // UDP_MAX_SEGMENTS of the oldest kernels that have it
	ROW_SLOTS = 128,       // as many datagrams as any kernel coalesces
	DRAIN_MAX = 1 << 16
};

struct gofi_offload {
	int fd;
	int gso, gro;       // in use
	int gso_err;        // the errno that ended gso
	uint32_t segment;   // UDP_SEGMENT as set now, 0: none
	uint32_t run_bytes; // the most that one send takes
	struct iovec out[2 * RUN_SEGMENTS];

	// A receive has wide buffers of stride bytes each, and behind them the second half of stage.
	uint32_t wide, stride;
	uint32_t singles;   // since the last run
	uint32_t burst;     // receives in one poll, as long as there is something
	uint32_t split;     // the first so many of a receive's buffers hold heads alone: the rest lands
	struct iovec in[2 * ROW_SLOTS + 1];
	char *stage;        // 2 * STAGE_BYTES
	// What stands in stage and was not handed out: pieces of step bytes from at on, the last one
	// shorter.
	uint32_t left, at, end, step;
	uint64_t from;
	uint64_t lost;
	char *land;         // where what follows the first land_head bytes goes, NULL: nowhere
	uint64_t land_len, land_at;
	uint32_t land_head;
	uint32_t *posted;   // the caller's buffers that wait: a stack, so that warm ones come first
	uint32_t count;
};

static inline int gofi_offload_option(const struct gofi_offload *o, int name, int value)
{
	return setsockopt(o->fd, SOL_UDP, name, &value, sizeof(value)) ? errno : 0;
}

// gofi_offload_drain drops all that waits in the socket.
void gofi_offload_drain(struct gofi_offload *o);

// gofi_offload_stage reads one message into stage: 1, 0 for none, something else for a failure.
int64_t gofi_offload_stage(struct gofi_ep *ep);

// gofi_offload_piece takes the next piece out of stage.
char *gofi_offload_piece(struct gofi_offload *o, uint32_t *len);

// gofi_offload_narrow makes receives for single datagrams.
void gofi_offload_narrow(struct gofi_ep *ep);

#endif
