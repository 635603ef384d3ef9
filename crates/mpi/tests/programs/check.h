/* What the programs of these tests share: a log of what a rank has seen, one file per rank. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *notes;
static int rank, ranks;

static void note(const char *form, ...) {
    va_list values;
    va_start(values, form);
    vfprintf(notes, form, values);
    va_end(values);
    fputc('\n', notes);
    fflush(notes);
}

/* A status, as far as the standard defines it. */
static void note_status(const char *what, MPI_Status *status, MPI_Datatype type) {
    int count, cancelled;
    MPI_Get_count(status, type, &count);
    MPI_Test_cancelled(status, &cancelled);
    note("%s: source %d tag %d count %d cancelled %d", what, status->MPI_SOURCE, status->MPI_TAG, count, !!cancelled);
}

static void note_error(const char *what, int error) {
    int class = -1;
    MPI_Error_class(error, &class);
    note("%s: %s", what,
         class == MPI_SUCCESS ? "success" : class == MPI_ERR_TRUNCATE ? "truncated" : class == MPI_ERR_IN_STATUS ? "in status"
         : class == MPI_ERR_RANK ? "rank" : class == MPI_ERR_COUNT ? "count" : class == MPI_ERR_ROOT ? "root" : class == MPI_ERR_TAG ? "tag" : class == MPI_ERR_PENDING ? "pending" : "another class");
}

#define must(what)                                                                              \
    do {                                                                                        \
        if (!(what)) {                                                                          \
            fprintf(stderr, "rank %d: %s:%d: %s\n", rank, __FILE__, __LINE__, #what);           \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                       \
        }                                                                                       \
    } while (0)

static void begin(int argc, char **argv, int level) {
    int provided;
    MPI_Init_thread(&argc, &argv, level, &provided);
    must(provided >= level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", argv[1], rank);
    notes = fopen(path, "w");
    must(notes);
}

/* Ends the log. Says in a file of its own how the library has waited: which way, how many yields. */
static void end(char **argv) {
    int (*way)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "punctual_mpi_way");
    unsigned long long (*yields)(void) = (unsigned long long (*)(void))dlsym(RTLD_DEFAULT, "punctual_mpi_yields");
    char path[4096];
    snprintf(path, sizeof path, "%s.%d.way", argv[1], rank);
    FILE *file = fopen(path, "w");
    must(file);
    fprintf(file, "%d %llu\n", way ? way() : 0, yields ? yields() : 0);
    fclose(file);
    MPI_Finalize();
    note("end");
}
