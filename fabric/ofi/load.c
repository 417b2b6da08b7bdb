//go:build linux && cgo

// load.c: libfabric comes into the process when it is first asked for, not when the program starts:
// constructors of the libraries that it needs sleep, and take over signals.
#define _GNU_SOURCE
#include "internal.h"

#ifdef GOFI_HEADERS

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct gofi_lib gofi_lib;

// find looks up a function. With a version it is that one's, not the newest: what struct fi_info
// looked like then is how every later one begins, so the headers of the build need not be those of
// the library.
static void *find(void *lib, const char *name, const char *version)
{
#ifdef __GLIBC__
	if (version)
		return dlvsym(lib, name, version);
#else
	(void)version;
#endif
	return dlsym(lib, name);
}

// find_all fills gofi_lib, and returns the name of a function that the library has not, or NULL.
static const char *find_all(void *lib)
{
	static const char info[] = "FABRIC_1.3"; // of libfabric 1.9
	const struct {
		const char *name, *version;
		void *to; // a pointer to a function pointer
	} want[] = {
		{"fi_getinfo", info, &gofi_lib.getinfo},
		{"fi_freeinfo", info, &gofi_lib.freeinfo},
		{"fi_dupinfo", info, &gofi_lib.dupinfo},
		{"fi_fabric", NULL, &gofi_lib.fabric},
		{"fi_version", NULL, &gofi_lib.version},
		{"fi_strerror", NULL, &gofi_lib.strerror},
		{"fi_tostr_r", NULL, &gofi_lib.tostr_r},
	};

	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		void *f = find(lib, want[i].name, want[i].version);

		if (!f)
			return want[i].name;
		memcpy(want[i].to, &f, sizeof(f));
	}
	return NULL;
}

// These have libraries below libfabric leave signals alone while they are loaded.
static char *const calm[] = {"IPATH_NO_BACKTRACE=1", "HFI_NO_BACKTRACE=1"};

enum { CALM = sizeof(calm) / sizeof(*calm) };

// calmed returns an environment with calm in front, or NULL. It is not freed: another thread may be
// reading it.
static char **calmed(void)
{
	size_t n = 0;
	char **env;

	while (environ && environ[n])
		n++;
	env = malloc((CALM + n + 1) * sizeof(*env));
	if (!env)
		return NULL;
	memcpy(env, calm, sizeof(calm));
	if (n)
		memcpy(env + CALM, environ, n * sizeof(*env));
	env[CALM + n] = NULL;
	return env;
}

int gofi_load(const char *soname, char *why, size_t size)
{
	char **before = environ, **during = calmed();
	const char *missing;
	void *lib;

	// The pointer is swapped, not the environment changed: other threads may read it meanwhile.
	if (during)
		environ = during;
	lib = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
	if (environ == during)
		environ = before;
	if (!lib) {
		const char *text = dlerror();

		snprintf(why, size, "%s", text ? text : soname);
		return -1;
	}
	missing = find_all(lib);
	if (!missing)
		return 0;
	snprintf(why, size, "%s has no %s", soname, missing);
	return -1;
}

#endif
