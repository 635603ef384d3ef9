/* One thread maps and unmaps a page in each turn. Another one, drawn, fills and unmaps much memory: both change the same address space. */
#include "culprit.h"

static size_t size;
static long bad;

static void *mapper(void *number)
{
    name("mapper-%ld", (long)number);
    while ((long)number == bad) {
        void *made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (made == MAP_FAILED)
            die("mmap");
        munmap(made, size);
        sleep_for(4 * MS);
    }
    pause();
    return NULL;
}

int main(void)
{
    int64_t lost = 0, times = 0;
    size = (size_t)draw(48, 96) << 20, bad = draw(1, 3);
    for (long number = 1; number <= 3; number++)
        thread(mapper, (void *)number);
    name("turner");
    int64_t begin = now();
    while (now() - begin < 5 * SECOND / 2) {
        sleep_for(MS);
        int64_t at = now();
        void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(page, 4096);
        int64_t took = now() - at;
        lost += took, times += took > 100000;
    }
    tell(now() - begin, lost, times, "\"subject\": \"turner\", \"culprit\": \"mapper-%ld\"", bad);
    _exit(0);
}
