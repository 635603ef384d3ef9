/* Whose session each rank is in, once it has waited. */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv) {
    begin(argc, argv, MPI_THREAD_SINGLE);
    MPI_Barrier(MPI_COMM_WORLD);
    note(getsid(0) == getpid() ? "its own" : "of another");
    must(getpgrp() == getpid());
    end(argv);
    return 0;
}
