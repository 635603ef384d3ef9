/* Page faults delay a program: pages of a `file` that is not in memory, pages that `swap` has (the cgroup's memory limit is too small for
 * its heap), pages of a file that the `limit` drops again, pages to `copy` while a forked child holds the old ones, `new` pages of a heap that
 * grows. */
#include "culprit.h"

#define PAGE 4096

static int64_t lost, times;
static size_t next, step = 7919;

enum access { READS, WRITES, OVERWRITES };

static void touch(volatile char *page, enum access access)
{
    if (access == OVERWRITES) {
        *page = 1;
        return;
    }
    char value = *page;
    if (access == WRITES)
        *page = value + 1;
}

/* Touches pages, first with faults, then without, and returns what the faults cost. */
static int64_t faults(char *memory, size_t pages, enum access access)
{
    size_t first = next;
    int64_t waited = run_delay(), at = now();
    for (int page = 0; page < 64; page++, next = (next + step) % pages)
        touch(memory + next * PAGE, access);
    int64_t cold = now() - at;
    cold -= run_delay() - waited;
    times += 64;
    next = first, waited = run_delay(), at = now();
    for (int page = 0; page < 64; page++, next = (next + step) % pages)
        touch(memory + next * PAGE, access);
    int64_t warm = now() - at;
    warm -= run_delay() - waited;
    return cold - warm;
}

static char *file_of(const char *path, size_t size)
{
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    char *block = malloc(1 << 20);
    memset(block, 7, 1 << 20);
    if (file < 0)
        die(path);
    for (size_t done = 0; done < size; done += 1 << 20)
        if (write(file, block, 1 << 20) != 1 << 20)
            die("write");
    if (fdatasync(file) || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED))
        die("fdatasync");
    char *made = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
    if (made == MAP_FAILED || madvise(made, size, MADV_RANDOM))
        die("mmap");
    return made;
}

static void hold_old_pages(void *nothing)
{
    pause();
    (void)nothing;
}

int main(int count, char **words)
{
    const char *kind = count > 1 ? words[1] : "file";
    int grows = !strcmp(kind, "new");
    size_t size = (size_t)draw(96, 128) << (grows ? 23 : 20), pages = size / PAGE;
    char path[32];
    char *memory;
    pid_t child = 0;
    snprintf(path, sizeof path, "table-%d", (int)draw(100, 999));
    int heap = grows || !strcmp(kind, "swap") || !strcmp(kind, "copy");
    if (heap) {
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        madvise(memory, size, MADV_NOHUGEPAGE);
    } else
        memory = file_of(path, size);
    if (!strcmp(kind, "swap") || !strcmp(kind, "limit"))
        join_cgroup();
    if (heap && !grows)
        memset(memory, 1, size);
    int64_t begin = now(), forks = 0, at, waited;
    while (now() - begin < 2 * SECOND) {
        if (!strcmp(kind, "copy") && times % 4096 == 0) {
            if (child)
                kill(child, SIGKILL), waitpid(child, NULL, 0);
            waited = run_delay(), at = now();
            child = helper("snapshot", hold_old_pages, NULL);
            lost += now() - at;
            lost -= run_delay() - waited, forks++;
        }
        lost += faults(memory, pages, grows ? OVERWRITES : heap ? WRITES : READS);
        work((grows ? 10 : 100) * 1000);
        if (grows)
            sleep_until(now() + MS);
    }
    int64_t end = now();
    unlink(path);
    tell(end - begin, lost, times, "\"file\": \"%s\", \"forks\": %" PRId64 ", \"cgroup\": \"%s\"", path, forks,
         getenv("CULPRIT_CGROUP") ? getenv("CULPRIT_CGROUP") : "");
    _exit(0);
}
