/* A program that sends to itself through TCP: what arrives, arrives in its own calls. Its time is its own, and no interrupt's. */
#include "culprit.h"
#include <arpa/inet.h>
#include <sys/socket.h>

static int connected(int listening)
{
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    int client = socket(AF_INET, SOCK_STREAM, 0);
    if (getsockname(listening, (void *)&address, &size) || client < 0 || connect(client, (void *)&address, size))
        die("connect");
    return client;
}

int main(void)
{
    static char bytes[65536];
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    if (listening < 0 || listen(listening, 1))
        die("listen");
    int client = connected(listening), server = accept(listening, NULL, NULL);
    size_t size = (size_t)draw(64, 4096);
    int64_t begin = now(), used = cpu(), waited = run_delay(), end = begin + draw(1500, 2500) * MS, times = 0;
    for (; now() < end; times++)
        if (send(client, bytes, size, 0) != (ssize_t)size || recv(server, bytes, size, MSG_WAITALL) != (ssize_t)size)
            die("send");
    tell(now() - begin, cpu() - used, 1, "\"queued_ns\": %" PRId64 ", \"messages\": %" PRId64, run_delay() - waited, times);
}
