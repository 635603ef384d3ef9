/* Four threads of each rank send and receive at the same time, each on its own communicator. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 20 };
static MPI_Comm own[THREADS];
static int sums[THREADS];

static void *talk(void *number) {
    int n = *(int *)number, right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    for (int i = 0; i < ROUNDS; i++) {
        int out = rank * 100 + n * 10 + i, in = -1, sum = 0;
        MPI_Status status;
        MPI_Sendrecv(&out, 1, MPI_INT, right, i, &in, 1, MPI_INT, left, i, own[n], &status);
        must(in == left * 100 + n * 10 + i && status.MPI_SOURCE == left && status.MPI_TAG == i);
        MPI_Request request;
        MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 500, own[n], &request);
        MPI_Send(&out, 1, MPI_INT, left, 500, own[n]);
        MPI_Wait(&request, &status);
        must(in == right * 100 + n * 10 + i && status.MPI_SOURCE == right);
        MPI_Allreduce(&in, &sum, 1, MPI_INT, MPI_SUM, own[n]);
        sums[n] += sum;
    }
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv, MPI_THREAD_MULTIPLE);
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, own + i);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(threads + i, NULL, talk, numbers + i);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        note("thread %d: %d", i, sums[i]);
        MPI_Comm_free(own + i);
    }
    end(argv);
    return 0;
}
