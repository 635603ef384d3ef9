/* Messages between ranks: contents, statuses, errors and requests of every blocking call. An even number of ranks. */
#include "check.h"

static int *data, *got;
enum { LARGE = 300000 };

static void sizes(void) {
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks, lengths[] = {0, 1, 1000, LARGE};
    MPI_Status status;
    for (int way = 0; way < 4; way++)
        for (int i = 0; i < 4; i++) {
            int n = lengths[i], tag = 10 * way + i;
            for (int j = 0; j < n; j++) data[j] = rank * 7 + j + tag;
            memset(got, 0, LARGE * sizeof *got);
            /* Even ranks send first; those of MPI_Rsend know that the receive is posted. */
            MPI_Request early = MPI_REQUEST_NULL;
            if (way == 3) {
                MPI_Irecv(got, LARGE, MPI_INT, left, tag, MPI_COMM_WORLD, &early);
                MPI_Barrier(MPI_COMM_WORLD);
            }
            for (int turn = 0; turn < 2; turn++) {
                if (rank % 2 == turn) {
                    if (way == 0) MPI_Send(data, n, MPI_INT, right, tag, MPI_COMM_WORLD);
                    if (way == 1) MPI_Ssend(data, n, MPI_INT, right, tag, MPI_COMM_WORLD);
                    if (way == 2) MPI_Bsend(data, n, MPI_INT, right, tag, MPI_COMM_WORLD);
                    if (way == 3) MPI_Rsend(data, n, MPI_INT, right, tag, MPI_COMM_WORLD);
                } else if (way == 3)
                    MPI_Wait(&early, &status);
                else
                    MPI_Recv(got, LARGE, MPI_INT, left, tag, MPI_COMM_WORLD, &status);
            }
            note_status("sent", &status, MPI_INT);
            for (int j = 0; j < n; j++) must(got[j] == left * 7 + j + tag);
            must(early == MPI_REQUEST_NULL);
        }
}

static void wildcards(void) {
    MPI_Status status;
    int sum = 0, value;
    if (rank != 0) {
        MPI_Send(&rank, 1, MPI_INT, 0, 100 + rank, MPI_COMM_WORLD);
        MPI_Ssend(&rank, 1, MPI_INT, 0, 200 + rank, MPI_COMM_WORLD);
        MPI_Send(&rank, 1, MPI_INT, 0, 300, MPI_COMM_WORLD);
        return;
    }
    for (int i = 0; i < 2 * (ranks - 1); i++) {
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        must(status.MPI_SOURCE == value);
        must(status.MPI_TAG == 100 + value || status.MPI_TAG == 200 + value || status.MPI_TAG == 300);
        sum += value * (status.MPI_TAG % 7);
    }
    for (int i = 0; i < ranks - 1; i++) {
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Recv(&value, 1, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        must(status.MPI_SOURCE == value);
        sum += value * (status.MPI_TAG % 7);
    }
    note("wildcards: %d", sum);
}

static void nobody(void) {
    MPI_Status status;
    int value = 5;
    MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    must(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG && value == 5);
    MPI_Probe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    must(status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Sendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, got, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    must(status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Message message;
    MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &message, &status);
    must(message == MPI_MESSAGE_NO_PROC && status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Mrecv(&value, 1, MPI_INT, &message, &status);
    must(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == MPI_PROC_NULL);
    note("nobody");
}

static void exchanges(void) {
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    MPI_Status status;
    for (int n = 1; n <= LARGE; n *= 30) {
        for (int j = 0; j < n; j++) data[j] = rank * 3 + j;
        MPI_Sendrecv(data, n, MPI_INT, right, 1, got, LARGE, MPI_INT, left, 1, MPI_COMM_WORLD, &status);
        for (int j = 0; j < n; j++) must(got[j] == left * 3 + j);
        note_status("sendrecv", &status, MPI_INT);
        MPI_Sendrecv(data, n, MPI_INT, left, 2, got, n, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int j = 0; j < n; j++) must(got[j] == right * 3 + j);
        MPI_Sendrecv_replace(data, n, MPI_INT, right, 3, left, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        for (int j = 0; j < n; j++) must(data[j] == left * 3 + j);
        note_status("replaced", &status, MPI_INT);
    }
    /* A column of a matrix goes into a row. */
    MPI_Datatype column;
    MPI_Type_vector(10, 1, 10, MPI_INT, &column);
    MPI_Type_commit(&column);
    for (int j = 0; j < 100; j++) data[j] = rank * 1000 + j;
    MPI_Sendrecv(data + 3, 1, column, right, 4, got, 10, MPI_INT, left, 4, MPI_COMM_WORLD, &status);
    for (int j = 0; j < 10; j++) must(got[j] == left * 1000 + 10 * j + 3);
    note_status("column", &status, MPI_INT);
    MPI_Type_free(&column);
}

static void matched(void) {
    int peer = rank ^ 1, value = rank + 40;
    MPI_Status status;
    MPI_Message message;
    if (rank % 2 == 0) MPI_Ssend(&value, 1, MPI_INT, peer, 9, MPI_COMM_WORLD);
    MPI_Mprobe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &message, &status);
    note_status("mprobe", &status, MPI_INT);
    MPI_Mrecv(&value, 1, MPI_INT, &message, &status);
    must(message == MPI_MESSAGE_NULL && value == peer + 40);
    note_status("mrecv", &status, MPI_INT);
    value = rank + 40;
    if (rank % 2 == 1) MPI_Ssend(&value, 1, MPI_INT, peer, 9, MPI_COMM_WORLD);
}

static void requests(void) {
    int peer = rank ^ 1, in[4], out[4], index, indices[4], done, total = 0;
    MPI_Request all[4], persistent[2];
    MPI_Status status, statuses[4];
    for (int i = 0; i < 4; i++) out[i] = rank * 10 + i;
    for (int i = 0; i < 4; i++) MPI_Irecv(in + i, 1, MPI_INT, peer, i, MPI_COMM_WORLD, all + i);
    MPI_Cancel(all + 2);
    MPI_Wait(all + 2, &status);
    int cancelled;
    MPI_Test_cancelled(&status, &cancelled);
    must(cancelled);
    must(all[2] == MPI_REQUEST_NULL);
    for (int i = 3; i >= 0; i--)
        if (i != 2) MPI_Send(out + i, 1, MPI_INT, peer, i, MPI_COMM_WORLD);
    MPI_Waitall(4, all, statuses);
    for (int i = 0; i < 4; i++) {
        must(all[i] == MPI_REQUEST_NULL && (i == 2 || in[i] == peer * 10 + i));
        note_status("waitall", statuses + i, MPI_INT);
    }
    MPI_Waitall(4, all, MPI_STATUSES_IGNORE);
    MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
    MPI_Waitany(4, all, &index, &status);
    must(index == MPI_UNDEFINED);
    MPI_Waitsome(4, all, &done, indices, statuses);
    must(done == MPI_UNDEFINED);
    MPI_Wait(all, &status);
    note_status("null request", &status, MPI_INT);
    for (int i = 0; i < 4; i++) MPI_Irecv(in + i, 1, MPI_INT, peer, i, MPI_COMM_WORLD, all + i);
    for (int i = 0; i < 4; i++) MPI_Send(out + i, 1, MPI_INT, peer, i, MPI_COMM_WORLD);
    for (int i = 0; i < 2; i++) {
        MPI_Waitany(4, all, &index, &status);
        must(index >= 0 && index < 4 && status.MPI_TAG == index && in[index] == peer * 10 + index);
        total += index;
    }
    for (int left = 2; left > 0; left -= done) {
        MPI_Waitsome(4, all, &done, indices, statuses);
        must(done > 0);
        for (int i = 0; i < done; i++) {
            must(statuses[i].MPI_TAG == indices[i] && in[indices[i]] == peer * 10 + indices[i]);
            total += indices[i];
        }
    }
    note("any and some: %d", total);
    MPI_Recv_init(in, 1, MPI_INT, peer, 5, MPI_COMM_WORLD, persistent);
    MPI_Send_init(out, 1, MPI_INT, peer, 5, MPI_COMM_WORLD, persistent + 1);
    MPI_Wait(persistent, &status);
    note_status("inactive", &status, MPI_INT);
    for (int i = 0; i < 5; i++) {
        out[0] = rank + i;
        MPI_Startall(2, persistent);
        if (i % 2) MPI_Waitall(2, persistent, statuses);
        else {
            MPI_Wait(persistent, statuses);
            MPI_Wait(persistent + 1, MPI_STATUS_IGNORE);
        }
        must(in[0] == peer + i && persistent[0] != MPI_REQUEST_NULL);
        note_status("persistent", statuses, MPI_INT);
    }
    MPI_Request_free(persistent);
    MPI_Request_free(persistent + 1);
}

static int handled;
static void handler(MPI_Comm *comm, int *error, ...) {
    handled++;
    (void)comm;
    note_error("handler", *error);
}

/* Everything is sent to oneself, so that no other rank waits for what fails. */
static void errors(MPI_Comm comm, const char *how) {
    int in[2], out[4] = {1, 2, 3, 4}, index, done, indices[2], error;
    MPI_Request send, all[2];
    MPI_Status status, statuses[2];
    note("errors: %s", how);
#define SENT(tag) MPI_Isend(out, 4, MPI_INT, rank, tag, comm, &send)
    SENT(1);
    note_error("recv", MPI_Recv(in, 1, MPI_INT, rank, 1, comm, &status));
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Irecv(in, 1, MPI_INT, rank, 2, comm, all);
    SENT(2);
    note_error("wait", MPI_Wait(all, &status));
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Irecv(in, 1, MPI_INT, rank, 3, comm, all);
    MPI_Irecv(in + 1, 1, MPI_INT, rank, 4, comm, all + 1);
    SENT(3);
    MPI_Request right;
    MPI_Isend(out, 1, MPI_INT, rank, 4, comm, &right);
    statuses[0].MPI_ERROR = statuses[1].MPI_ERROR = MPI_SUCCESS;
    error = MPI_Waitall(2, all, statuses);
    note_error("waitall", error);
    note_error("first", statuses[0].MPI_ERROR);
    /* After an error the library may stop, and leave the second pending. */
    must(all[0] == MPI_REQUEST_NULL);
    must(statuses[1].MPI_ERROR == (all[1] == MPI_REQUEST_NULL ? MPI_SUCCESS : MPI_ERR_PENDING));
    if (all[1] != MPI_REQUEST_NULL) MPI_Wait(all + 1, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Wait(&right, MPI_STATUS_IGNORE);
    MPI_Irecv(in, 1, MPI_INT, rank, 5, comm, all);
    all[1] = MPI_REQUEST_NULL;
    SENT(5);
    note_error("waitany", MPI_Waitany(2, all, &index, &status));
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Irecv(in, 1, MPI_INT, rank, 6, comm, all);
    SENT(6);
    note_error("waitsome", MPI_Waitsome(2, all, &done, indices, statuses));
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    note_error("sendrecv", MPI_Sendrecv(out, 4, MPI_INT, rank, 7, in, 1, MPI_INT, rank, 7, comm, &status));
    note_error("no such rank", MPI_Send(out, 1, MPI_INT, 12345, 1, comm));
    note_error("negative", MPI_Recv(in, -1, MPI_INT, rank, 1, comm, &status));
    note_error("no such root", MPI_Bcast(in, 1, MPI_INT, 12345, comm));
}

/* The world has the same handler: MPICH takes it for requests, whatever communicator they are of. */
static void both_handlers(void) {
    MPI_Comm comm;
    MPI_Errhandler own;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(handler, &own);
    MPI_Errhandler handlers[2] = {MPI_ERRORS_RETURN, own};
    for (int i = 0; i < 2; i++) {
        MPI_Comm_set_errhandler(comm, handlers[i]);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, handlers[i]);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, handlers[i]);
        errors(comm, i ? "handled" : "returned");
    }
    note("handled %d", handled);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&own);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    begin(argc, argv, MPI_THREAD_SINGLE);
    data = malloc(LARGE * sizeof *data);
    got = malloc(LARGE * sizeof *got);
    int room = 3 * LARGE * sizeof *data;
    void *buffer = malloc(room);
    MPI_Buffer_attach(buffer, room);
    sizes();
    wildcards();
    MPI_Barrier(MPI_COMM_WORLD);
    nobody();
    exchanges();
    matched();
    requests();
    both_handlers();
    MPI_Buffer_detach(&buffer, &room);
    end(argv);
    return 0;
}
