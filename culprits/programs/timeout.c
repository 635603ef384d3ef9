/* A time-out of a socket, which the kernel counts in ticks of HZ, paces a loop. */
#include "culprit.h"
#include <sys/socket.h>
#include <sys/time.h>

int main(void)
{
    int64_t asked = draw(600, 1100) * 1000, lost = 0, times = 0;
    int ends[2];
    struct timeval limit = {0, asked / 1000};
    char byte;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit))
        die("socketpair");
    int64_t begin = now();
    for (; now() - begin < 2 * SECOND; times++) {
        int64_t at = now();
        if (recv(ends[0], &byte, 1, 0) != -1)
            die("recv");
        lost += now() - at - asked;
    }
    tell(now() - begin, lost, times, "\"asked_ns\": %" PRId64, asked);
}
