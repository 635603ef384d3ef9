/* A library with a loop of its own. */
#include <sched.h>

void library_loop(int calls) {
    for (int i = 0; i < calls; i++) sched_yield();
}
