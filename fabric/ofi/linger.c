//go:build linux && cgo

// linger.c: the shm provider maps the memory of an endpoint in the same process where that has it,
// and unmaps it when it closes: the next send to it from that process ends the process. So what is
// closed here lives on, silent, until the last domain of the provider in this process closes. Peers
// in other processes have mappings of their own.
#include "internal.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t living;          // domains that are open
static struct gofi_domain *gone; // those that were closed

void gofi_linger_open(struct gofi_domain *d)
{
	const char *prov = d->info->fabric_attr->prov_name;

	if (!prov || strcmp(prov, "shm"))
		return;
	d->lingers = 1;
	pthread_mutex_lock(&lock);
	living++;
	pthread_mutex_unlock(&lock);
}

void gofi_linger_close(struct gofi_domain *d, struct gofi_fail *fail)
{
	struct gofi_domain *all = NULL;

	// Nothing reads what stands there any more. The mapping stays, for what was posted.
	(void)madvise(d->arena, d->arena_bytes, MADV_DONTNEED);
	pthread_mutex_lock(&lock);
	d->next = gone;
	gone = d;
	if (--living == 0) {
		all = gone;
		gone = NULL;
	}
	pthread_mutex_unlock(&lock);
	// Endpoints reach into each other's memory, so all of them go first.
	for (struct gofi_domain *i = all; i; i = i->next) {
		while (i->dead) {
			struct gofi_ep *ep = i->dead;

			i->dead = ep->next;
			gofi_ep_free(ep, fail);
		}
	}
	while (all) {
		struct gofi_domain *i = all;

		all = i->next;
		gofi_domain_free(i, fail);
	}
}
