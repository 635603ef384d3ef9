/* Two ranks send a message to and fro. */
#include "check.h"

int main(int argc, char **argv) {
    begin(argc, argv, MPI_THREAD_SINGLE);
    int value = 0;
    for (int i = 0; i < 20; i++) {
        if (rank == 0) MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(&value, 1, MPI_INT, rank ^ 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        value++;
        if (rank == 1) MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    note("value %d", value);
    end(argv);
    return 0;
}
