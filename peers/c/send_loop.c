/* A bare loop of send() on a connected UDP socket, as fast as it goes; a second process receives. Prints nanoseconds per datagram.
 *
 *     send_loop DATAGRAMS BYTES CPU CPU
 *
 * The first CPU is the sender's. */
#define _GNU_SOURCE
#include "bare.h"

#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: send_loop DATAGRAMS BYTES CPU CPU\n");
        return 2;
    }
    long datagrams = atol(argv[1]);
    size_t size = atol(argv[2]);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    int in = socket(AF_INET, SOCK_DGRAM, 0), out = socket(AF_INET, SOCK_DGRAM, 0);
    if (in < 0 || out < 0 || bind(in, (struct sockaddr *)&address, length) || getsockname(in, (struct sockaddr *)&address, &length)
        || connect(out, (struct sockaddr *)&address, length))
        die("socket");
    char *datagram = calloc(1, size);
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(atoi(argv[4]));
        for (;;)
            if (recv(in, datagram, size, 0) < 0)
                die("recv");
    }
    pin(atoi(argv[3]));
    for (int i = 0; i < 1000; i++)
        send(out, datagram, size, 0);
    int64_t begin = now();
    for (long i = 0; i < datagrams; i++)
        if (send(out, datagram, size, 0) < 0)
            die("send");
    int64_t end = now();
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf("%.1f\n", (double)(end - begin) / datagrams);
    return 0;
}
