/* Contents of every collective call, on both kinds of communicators, and of windows. An even number of ranks, at least 4. */
#include "check.h"

enum { N = 100, MOST = 64 };
static int in[N * MOST], out[N * MOST], counts[MOST], places[MOST], bytes[MOST];
static MPI_Datatype types[MOST];

static void fill(int by) {
    for (int i = 0; i < N * MOST; i++) {
        out[i] = rank * by + i;
        in[i] = -1;
    }
}

static void note_sum(const char *what, int n) {
    unsigned sum = 0;
    for (int i = 0; i < n; i++) sum = sum * 31 + in[i];
    note("%s: %08x", what, sum);
}

/* 2x2 matrices: the order matters. */
static void product(void *left, void *right, int *n, MPI_Datatype *type) {
    (void)type;
    for (int *a = left, *b = right; a < (int *)left + *n * 4; a += 4, b += 4) {
        int c[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
        for (int i = 0; i < 4; i++) b[i] = c[i] % 1009;
    }
}

static void rooted(void) {
    for (int root = 0; root < ranks; root++) {
        fill(1000 + root);
        MPI_Bcast(out, N, MPI_INT, root, MPI_COMM_WORLD);
        for (int i = 0; i < N; i++) must(out[i] == root * (1000 + root) + i);
        MPI_Reduce(out, in, N, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
        note_sum("reduce", N);
        fill(10);
        MPI_Gather(rank == root ? MPI_IN_PLACE : out, N, MPI_INT, in, N, MPI_INT, root, MPI_COMM_WORLD);
        note_sum("gather", N * ranks);
        MPI_Scatter(out, N, MPI_INT, in, N, MPI_INT, root, MPI_COMM_WORLD);
        note_sum("scatter", N);
        MPI_Gatherv(out, counts[rank], MPI_INT, in, counts, places, MPI_INT, root, MPI_COMM_WORLD);
        note_sum("gatherv", N * ranks);
        MPI_Scatterv(out, counts, places, MPI_INT, rank == root ? MPI_IN_PLACE : in, counts[rank], MPI_INT, root, MPI_COMM_WORLD);
        note_sum("scatterv", N);
    }
}

static void everywhere(void) {
    fill(7);
    MPI_Allreduce(out, in, N, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    note_sum("allreduce", N);
    MPI_Allreduce(MPI_IN_PLACE, out, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    memcpy(in, out, sizeof in);
    note_sum("allreduce in place", N);
    static double sums[20000], total[20000];
    for (int i = 0; i < 20000; i++) sums[i] = rank + i;
    MPI_Allreduce(sums, total, 20000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < 20000; i++) must(total[i] == ranks * (ranks - 1) / 2 + ranks * i);
    MPI_Op op;
    MPI_Datatype matrix;
    MPI_Type_contiguous(4, MPI_INT, &matrix);
    MPI_Type_commit(&matrix);
    MPI_Op_create(product, 0, &op);
    fill(3);
    MPI_Allreduce(out, in, N / 4, matrix, op, MPI_COMM_WORLD);
    note_sum("product", N);
    MPI_Reduce(out, in, N / 4, matrix, op, ranks - 1, MPI_COMM_WORLD);
    note_sum("product at one", N);
    MPI_Scan(out, in, N / 4, matrix, op, MPI_COMM_WORLD);
    note_sum("scan", N);
    fill(3);
    MPI_Exscan(out, in, N / 4, matrix, op, MPI_COMM_WORLD);
    if (rank > 0) note_sum("exscan", N);
    MPI_Reduce_scatter_block(out, in, N / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    note_sum("reduce_scatter_block", N / 4);
    MPI_Reduce_scatter(out, in, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    note_sum("reduce_scatter", counts[rank]);
    fill(5);
    MPI_Allgather(out, N, MPI_INT, in, N, MPI_INT, MPI_COMM_WORLD);
    note_sum("allgather", N * ranks);
    MPI_Allgatherv(out, counts[rank], MPI_INT, in, counts, places, MPI_INT, MPI_COMM_WORLD);
    note_sum("allgatherv", N * ranks);
    MPI_Alltoall(out, N, MPI_INT, in, N, MPI_INT, MPI_COMM_WORLD);
    note_sum("alltoall", N * ranks);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, in, N, MPI_INT, MPI_COMM_WORLD);
    note_sum("alltoall in place", N * ranks);
    int same[MOST];
    for (int i = 0; i < ranks; i++) same[i] = 1 + (rank + i) % 5;
    MPI_Alltoallv(out, same, places, MPI_INT, in, same, places, MPI_INT, MPI_COMM_WORLD);
    note_sum("alltoallv", N * ranks);
    MPI_Alltoallw(out, same, bytes, types, in, same, bytes, types, MPI_COMM_WORLD);
    note_sum("alltoallw", N * ranks);
    MPI_Op_free(&op);
    MPI_Type_free(&matrix);
}

static void neighbours(void) {
    int sizes[1] = {ranks}, periodic[1] = {1}, two[2] = {3, 3}, at[2] = {0, 10};
    MPI_Aint at_bytes[2] = {0, 40};
    MPI_Comm ring;
    MPI_Cart_create(MPI_COMM_WORLD, 1, sizes, periodic, 0, &ring);
    fill(9);
    MPI_Neighbor_allgather(out, 5, MPI_INT, in, 5, MPI_INT, ring);
    note_sum("neighbor_allgather", 10);
    MPI_Neighbor_allgatherv(out, 3, MPI_INT, in, two, at, MPI_INT, ring);
    note_sum("neighbor_allgatherv", 20);
    MPI_Neighbor_alltoall(out, 4, MPI_INT, in, 4, MPI_INT, ring);
    note_sum("neighbor_alltoall", 20);
    MPI_Neighbor_alltoallv(out, two, at, MPI_INT, in, two, at, MPI_INT, ring);
    note_sum("neighbor_alltoallv", 20);
    MPI_Neighbor_alltoallw(out, two, at_bytes, types, in, two, at_bytes, types, ring);
    note_sum("neighbor_alltoallw", 20);
    MPI_Comm_free(&ring);
}

static void between_groups(void) {
    MPI_Comm half, both, merged;
    MPI_Status status;
    int first = rank < ranks / 2, me, sum, value;
    MPI_Comm_split(MPI_COMM_WORLD, first, rank, &half);
    MPI_Comm_rank(half, &me);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, first ? ranks / 2 : 0, 77, &both);
    MPI_Sendrecv(&rank, 1, MPI_INT, me, 1, &value, 1, MPI_INT, me, 1, both, &status);
    must(value == (first ? rank + ranks / 2 : rank - ranks / 2));
    note_status("between groups", &status, MPI_INT);
    MPI_Barrier(both);
    value = 1000 + rank;
    MPI_Bcast(&value, 1, MPI_INT, first ? (me == 1 ? MPI_ROOT : MPI_PROC_NULL) : 1, both);
    must(value == (first ? 1000 + rank : 1001));
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, both);
    note("allreduce of the other group: %d", sum);
    fill(2);
    MPI_Allgather(out, 3, MPI_INT, in, 3, MPI_INT, both);
    note_sum("allgather of the other group", 3 * ranks / 2);
    MPI_Intercomm_merge(both, !first, &merged);
    MPI_Barrier(merged);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
}

static void windows(void) {
    MPI_Win window;
    MPI_Group world, left_group, right_group;
    int *memory, right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    MPI_Win_allocate(N * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_fence(0, window);
    MPI_Put(&rank, 1, MPI_INT, right, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    must(memory[0] == left);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &left, &left_group);
    MPI_Group_incl(world, 1, &right, &right_group);
    MPI_Win_post(left_group, 0, window);
    MPI_Win_start(right_group, 0, window);
    MPI_Put(&rank, 1, MPI_INT, right, 1, 1, MPI_INT, window);
    MPI_Win_complete(window);
    MPI_Win_wait(window);
    must(memory[1] == left);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, window);
    MPI_Put(&rank, 1, MPI_INT, right, 2, 1, MPI_INT, window);
    MPI_Win_flush(right, window);
    MPI_Win_unlock(right, window);
    MPI_Barrier(MPI_COMM_WORLD);
    int got = -1, before = -1, ten = 10;
    memory[3] = 7;
    MPI_Win_fence(0, window);
    MPI_Get(&got, 1, MPI_INT, right, 0, 1, MPI_INT, window);
    MPI_Accumulate(&rank, 1, MPI_INT, 0, 3, 1, MPI_INT, MPI_SUM, window);
    MPI_Win_fence(0, window);
    must(got == rank && memory[3] == 7 + (rank == 0) * ranks * (ranks - 1) / 2);
    MPI_Win_lock_all(0, window);
    MPI_Fetch_and_op(&ten, &before, MPI_INT, 0, 3, MPI_SUM, window);
    MPI_Win_flush_all(window);
    must((before - 7 - ranks * (ranks - 1) / 2) % 10 == 0);
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Get(&got, 1, MPI_INT, 0, 3, 1, MPI_INT, window);
    MPI_Win_unlock(0, window);
    note("summed in the window of rank 0: %d", got);
    MPI_Win_free(&window);
}

int main(int argc, char **argv) {
    begin(argc, argv, MPI_THREAD_SINGLE);
    for (int i = 0; i < ranks; i++) {
        counts[i] = 1 + i % 7;
        places[i] = i * 8;
        bytes[i] = i * 32;
        types[i] = MPI_INT;
    }
    rooted();
    everywhere();
    neighbours();
    between_groups();
    windows();
    end(argv);
    return 0;
}
