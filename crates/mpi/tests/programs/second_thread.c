/* Whether ranks that share a CPU still yield in the progress function after a second thread has waited. */
#include "check.h"
#include <pthread.h>

static MPI_Comm own;

static void trips(MPI_Comm comm) {
    int value = 0;
    for (int i = 0; i < 20; i++) {
        if (rank == 0) MPI_Send(&value, 1, MPI_INT, 1, 0, comm);
        MPI_Recv(&value, 1, MPI_INT, rank ^ 1, 0, comm, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(&value, 1, MPI_INT, 0, 0, comm);
    }
}

static void *talk(void *unused) {
    trips(own);
    return unused;
}

static unsigned long long yields(void) {
    unsigned long long (*yields)(void) = (unsigned long long (*)(void))dlsym(RTLD_DEFAULT, "punctual_mpi_yields");
    int (*way)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "punctual_mpi_way");
    return way && way() == 2 ? yields() : 0;
}

int main(int argc, char **argv) {
    begin(argc, argv, MPI_THREAD_MULTIPLE);
    pthread_t thread;
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    trips(MPI_COMM_WORLD);
    pthread_create(&thread, NULL, talk, NULL);
    pthread_join(thread, NULL);
    unsigned long long before = yields();
    trips(MPI_COMM_WORLD);
    note("more yields: %llu", yields() - before);
    MPI_Comm_free(&own);
    end(argv);
    return 0;
}
