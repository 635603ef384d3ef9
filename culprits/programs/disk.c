/* Each turn appends to a few files. One of them, drawn, is forced to the disk each time. What counts is the time blocked: the calls' own
 * CPU time, and the queue of the CPU, are no waits for a disk. */
#include "culprit.h"

int main(void)
{
    static char block[4096];
    char names[4][32];
    int files[4], bad = (int)draw(0, 3);
    int64_t lost = 0, times = 0, begin = now();
    for (int number = 0; number < 4; number++) {
        snprintf(names[number], sizeof names[number], "journal-%d-%d", number, (int)draw(100, 999));
        files[number] = open(names[number], O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (files[number] < 0)
            die(names[number]);
    }
    for (; now() - begin < 2 * SECOND; times++) {
        for (int number = 0; number < 4; number++)
            if (write(files[number], block, sizeof block) != sizeof block)
                die("write");
        int64_t queued = run_delay(), used = cpu(), at = now();
        if (fdatasync(files[bad]))
            die("fdatasync");
        int64_t took = now() - at - (cpu() - used);
        lost += took - (run_delay() - queued);
        work(draw(100, 300) * 1000);
    }
    int64_t end = now();
    for (int number = 0; number < 4; number++)
        unlink(names[number]);
    tell(end - begin, lost, times, "\"file\": \"%s\"", names[bad]);
}
