/* Times of MPI operations: mpicc measure.c -o measure; mpirun -n RANKS ./measure KIND [SECONDS [quickest]].
   With quickest, a time is the mean of the quickest 100 in a row, not of all. No other program disturbed these. Each rank
   stays on one of the CPUs.
   - allreduce, alltoall: 8 doubles, 1 kB to each rank. Mean of a call in us.
   - stencil: a five-point stencil, 64 rows of 64 a rank, with MPI_Irecv, MPI_Isend, MPI_Waitall and a sum every 10 steps. In us a step.
   - small, large, small-nonblocking, large-nonblocking: round trips of 8 bytes and of 64 kB, by MPI_Send and MPI_Recv or by
     MPI_Irecv, MPI_Isend and MPI_Waitall. In us.
   - threads1, threads2, threads4: so many threads of each rank make round trips, each on its own communicator. In us a round trip.
   - silence: rank 0 waits for a message of rank 1, which works for SECONDS. The share of rank 1 of the CPU time of both, in percent. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, ranks;
static double field[2][66][64];

static char sent[1 << 16], received[1 << 16];

static void trips(long n, int size, MPI_Comm comm) {
    int peer = rank ^ 1;
    if (peer >= ranks) return;
    for (long i = 0; i < n; i++)
        if (rank % 2 == 0) {
            MPI_Send(sent, size, MPI_CHAR, peer, 0, comm);
            MPI_Recv(received, size, MPI_CHAR, peer, 0, comm, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(received, size, MPI_CHAR, peer, 0, comm, MPI_STATUS_IGNORE);
            MPI_Send(sent, size, MPI_CHAR, peer, 0, comm);
        }
}

static void exchanges(long n, int size) {
    int peer = rank ^ 1;
    for (long i = 0; i < n; i++) {
        MPI_Request both[2];
        MPI_Irecv(received, size, MPI_CHAR, peer, 0, MPI_COMM_WORLD, both);
        MPI_Isend(sent, size, MPI_CHAR, peer, 0, MPI_COMM_WORLD, both + 1);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    }
}

static void small(long n) { trips(n, 8, MPI_COMM_WORLD); }
static void large(long n) { trips(n, sizeof sent, MPI_COMM_WORLD); }
static void small_nonblocking(long n) { exchanges(n, 8); }
static void large_nonblocking(long n) { exchanges(n, sizeof sent); }

static MPI_Comm own[4];
static long each;

static void *talk(void *comm) {
    trips(each, 8, *(MPI_Comm *)comm);
    return NULL;
}

static void threads(long n, int number) {
    pthread_t all[4];
    each = n;
    for (int i = 0; i < number; i++) pthread_create(all + i, NULL, talk, own + i);
    for (int i = 0; i < number; i++) pthread_join(all[i], NULL);
}

static void threads1(long n) { threads(n, 1); }
static void threads2(long n) { threads(n, 2); }
static void threads4(long n) { threads(n, 4); }

static void allreduce(long n) {
    double in[8] = {rank}, out[8];
    for (long i = 0; i < n; i++) MPI_Allreduce(in, out, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(long n) {
    static char in[1024 * 64], out[1024 * 64];
    for (long i = 0; i < n; i++) MPI_Alltoall(out, 1024, MPI_CHAR, in, 1024, MPI_CHAR, MPI_COMM_WORLD);
}

static void stencil(long n) {
    int up = rank ? rank - 1 : MPI_PROC_NULL, down = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
    for (long i = 0; i < n; i++) {
        double(*old)[64] = field[i % 2], (*new)[64] = field[1 - i % 2], sum = 0, all;
        MPI_Request edges[4];
        MPI_Irecv(old[0], 64, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, edges);
        MPI_Irecv(old[65], 64, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, edges + 1);
        MPI_Isend(old[1], 64, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, edges + 2);
        MPI_Isend(old[64], 64, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, edges + 3);
        MPI_Waitall(4, edges, MPI_STATUSES_IGNORE);
        for (int y = 1; y <= 64; y++)
            for (int x = 1; x < 63; x++) {
                new[y][x] = 0.25 * (old[y - 1][x] + old[y + 1][x] + old[y][x - 1] + old[y][x + 1]);
                sum += new[y][x];
            }
        if (i % 10 == 9) MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}

static double cpu(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void silence(double seconds) {
    MPI_Barrier(MPI_COMM_WORLD);
    double before = cpu(), working, start = MPI_Wtime();
    if (rank == 0) {
        MPI_Recv(&working, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("%.2f\n", 100 * working / (working + cpu() - before));
    } else {
        while (MPI_Wtime() < start + seconds) continue;
        working = cpu() - before;
        MPI_Send(&working, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
    }
}

static double timed(void (*kind)(long), long n) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    kind(n);
    double took = MPI_Wtime() - start;
    MPI_Bcast(&took, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return took;
}

/* The next of the CPUs that the process may use. */
static void stay(void) {
    cpu_set_t may, one;
    sched_getaffinity(0, sizeof may, &may);
    int nth = rank % CPU_COUNT(&may), cpu = 0;
    while (!CPU_ISSET(cpu, &may) || nth-- > 0) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void quickest(void (*kind)(long), double seconds) {
    stay();
    double start = MPI_Wtime(), best = 1e9;
    int more = 1;
    while (more) {
        double took = timed(kind, 100);
        best = took < best ? took : best;
        more = MPI_Wtime() - start < seconds;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) printf("%.4f\n", best / 100 * 1e6);
}

int main(int argc, char **argv) {
    static const struct { const char *name; void (*kind)(long); } kinds[] = {
        {"small", small}, {"large", large}, {"small-nonblocking", small_nonblocking},
        {"large-nonblocking", large_nonblocking}, {"threads1", threads1}, {"threads2", threads2}, {"threads4", threads4}, {"allreduce", allreduce}, {"alltoall", alltoall}, {"stencil", stencil}};
    int level, several = !strncmp(argv[1], "threads", 7);
    MPI_Init_thread(&argc, &argv, several ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; several && i < 4; i++) MPI_Comm_dup(MPI_COMM_WORLD, own + i);
    double seconds = argc > 2 ? atof(argv[2]) : 1;
    if (!strcmp(argv[1], "silence")) silence(seconds);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(argv[1], kinds[i].name)) {
            long n = 4;
            if (argc > 3) {
                quickest(kinds[i].kind, seconds);
                continue;
            }
            double took = timed(kinds[i].kind, n);
            /* Longer and longer, until the time is known well enough. */
            while (took < seconds / 8 && n < 100000000) took = timed(kinds[i].kind, n *= took < seconds / 100 ? 8 : 2);
            n = n * seconds / took + 1;
            took = timed(kinds[i].kind, n);
            if (rank == 0) printf("%.3f\n", took / n * 1e6);
        }
    MPI_Finalize();
    return 0;
}
