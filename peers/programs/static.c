#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* A static program: sleeps, polls, and exchanges bytes with a child through pipes. */
int main(void)
{
    int there[2], back[2];
    char byte = 0;

    if (pipe(there) || pipe(back))
        return 1;
    if (fork() == 0) {
        close(there[1]);
        while (read(there[0], &byte, 1) == 1)
            if (write(back[1], &byte, 1) != 1)
                _exit(2);
        _exit(0);
    }
    for (int i = 0; i < 2000; i++)
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            return 3;
    close(there[1]);
    for (int i = 0; i < 100; i++) {
        usleep(1000);
        poll(NULL, 0, 1);
    }
    wait(NULL);
    puts("2000 round trips, 200 waits");
    return 0;
}
