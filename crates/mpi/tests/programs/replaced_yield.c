/* Replaces sched_yield(2) and ends the program if libpunctual_mpi.so calls it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

int sched_yield(void) {
    Dl_info caller;
    if (dladdr(__builtin_return_address(0), &caller) && strstr(caller.dli_fname, "punctual_mpi")) _exit(77);
    return 0;
}
