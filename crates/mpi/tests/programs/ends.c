/* Rank 1 ends while rank 0 waits for it: HOW is abort or kill. */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv) {
    begin(argc, argv, MPI_THREAD_SINGLE);
    int value;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        if (strcmp(getenv("HOW"), "abort")) raise(SIGKILL);
        MPI_Abort(MPI_COMM_WORLD, 5);
    }
    MPI_Recv(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    end(argv);
    return 0;
}
