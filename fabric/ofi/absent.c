//go:build linux && cgo

// absent.c: builds without libfabric's headers, in which the other C files have no code but that of
// signals.c. gofi_load fails and says why, so Go calls none of the functions that need libfabric.
// Neither header of the shim is included here, because the functions have other types.
#if !__has_include(<rdma/fabric.h>)

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

int gofi_load(const char *soname, char *why, size_t size);

int gofi_load(const char *soname, char *why, size_t size)
{
	(void)soname;
	snprintf(why, size, "this program was built without libfabric's headers");
	return -2;
}

#define ABSENT(name) \
	void name(void); \
	void name(void) { abort(); }

ABSENT(gofi_addr_kind)
ABSENT(gofi_arena)
ABSENT(gofi_arena_bytes)
ABSENT(gofi_attr_text)
ABSENT(gofi_before_sleep)
ABSENT(gofi_can_wait)
ABSENT(gofi_copied)
ABSENT(gofi_describe)
ABSENT(gofi_domain_close)
ABSENT(gofi_domain_open)
ABSENT(gofi_ep_close)
ABSENT(gofi_ep_open)
ABSENT(gofi_fi_addr)
ABSENT(gofi_forget)
ABSENT(gofi_freeinfo)
ABSENT(gofi_getinfo)
ABSENT(gofi_has_source)
ABSENT(gofi_insert)
ABSENT(gofi_next)
ABSENT(gofi_offload_describe)
ABSENT(gofi_offload_land)
ABSENT(gofi_offload_start)
ABSENT(gofi_poll)
ABSENT(gofi_post)
ABSENT(gofi_progress)
ABSENT(gofi_recv)
ABSENT(gofi_region_add)
ABSENT(gofi_region_drop)
ABSENT(gofi_remove)
ABSENT(gofi_strerror)
ABSENT(gofi_version)
ABSENT(gofi_wait_socket)

#endif
