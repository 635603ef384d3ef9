/* Times of MPI operations: mpicc measure.c -o measure; mpirun -n RANKS ./measure KIND [SECONDS [quickest]].
   With quickest, a time is the mean of the quickest 100 in a row, not of all. No other program disturbed these. Each rank
   stays on one of the CPUs.
   - roundtrip: every even rank sends 8 bytes to its neighbour and gets them back. Mean of a round trip in us.
   - allreduce, alltoall: 8 doubles, 1 kB to each rank. Mean of a call in us.
   - stencil: a five-point stencil, 64 rows of 64 a rank, with MPI_Irecv, MPI_Isend, MPI_Waitall and a sum every 10 steps. In us a step.
   - silence: rank 0 waits for a message of rank 1, which works for SECONDS. The share of rank 1 of the CPU time of both, in percent. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, ranks;
static double field[2][66][64];

static void roundtrip(long n) {
    char message[8] = "punctual";
    int peer = rank ^ 1;
    if (peer >= ranks) return;
    for (long i = 0; i < n; i++)
        if (rank % 2 == 0) {
            MPI_Send(message, 8, MPI_CHAR, peer, 0, MPI_COMM_WORLD);
            MPI_Recv(message, 8, MPI_CHAR, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(message, 8, MPI_CHAR, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(message, 8, MPI_CHAR, peer, 0, MPI_COMM_WORLD);
        }
}

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
        {"roundtrip", roundtrip}, {"allreduce", allreduce}, {"alltoall", alltoall}, {"stencil", stencil}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
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
