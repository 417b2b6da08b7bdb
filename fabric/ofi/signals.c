//go:build linux && cgo

// signals.c: libfabric and what it loads leave the process's signal handlers as they were.
#include "shim.h"

#include <signal.h>

static struct sigaction saved[NSIG]; // of the caller that holds the lock in library.go
static char has[NSIG];

static int same(const struct sigaction *a, const struct sigaction *b)
{
	return a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags;
}

int gofi_signals_save(void)
{
	int n = 0;

	for (int sig = 1; sig < NSIG; sig++)
		n += has[sig] = !sigaction(sig, NULL, &saved[sig]);
	return n;
}

int gofi_signals_restore(void)
{
	int n = 0;

	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction now;

		if (!has[sig] || sigaction(sig, NULL, &now) || same(&now, &saved[sig]))
			continue;
		// Go's own handler, which that of SIGSEGV is, came by another goroutine's signal.Notify.
		if (has[SIGSEGV] && now.sa_handler == saved[SIGSEGV].sa_handler)
			continue;
		n += !sigaction(sig, &saved[sig], NULL);
	}
	return n;
}
