/* Bare ping-pong between two processes: what a C programmer would write with each mechanism. Prints the duration of each round trip in
 * nanoseconds, one a line, once all are over.
 *
 *     ping_pong MECHANISM SIZE ROUNDS CPU CPU
 *
 * Each round trip is two calls on each side and two readings of the clock. The first hundred are not printed.
 *
 * The process that measures has a second thread, which sleeps (bare.h). Programs that wait for messages have one, and so does
 * punctual. Calls cost some tens of nanoseconds more then. */
#define _GNU_SOURCE
#include "bare.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define WARMUP 100

static size_t size;
static char *message;
static int to_child[2], to_parent[2]; /* descriptors: [0] to read, [1] to write */
static mqd_t queues[2][2];
static int system_v[2];
static pid_t peer;

/* Shared memory of both sides, and the bytes. There is one word or primitive for each direction, each in a line of its
 * own. */
struct direction {
    _Alignas(128) _Atomic uint32_t word;
    _Atomic uint32_t sleeps;
    _Alignas(128) sem_t semaphore;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    int value;
    _Alignas(128) char bytes[];
};
static struct direction *shared[2];

/* Descriptors. Direction 0 goes to the child, 1 to the parent. */
static int *pair(int direction)
{
    return direction == 0 ? to_child : to_parent;
}

static void fd_send(int direction)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = write(pair(direction)[1], message + done, size - done);
        if (n < 0)
            die("write");
        done += n;
    }
}

static void fd_receive(int direction)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(pair(direction)[0], message + done, size - done);
        if (n <= 0)
            die("read");
        done += n;
    }
}

static void pipe_open(void)
{
    if (pipe(to_child) || pipe(to_parent))
        die("pipe");
}

static void fifo_open(void)
{
    for (int direction = 0; direction < 2; direction++) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/ping-pong-%d-%d", getpid(), direction);
        if (mkfifo(path, 0600))
            die("mkfifo");
        pair(direction)[0] = open(path, O_RDONLY | O_NONBLOCK);
        pair(direction)[1] = open(path, O_WRONLY);
        fcntl(pair(direction)[0], F_SETFL, 0);
        unlink(path);
    }
}

static void both_ways(int parents, int childs)
{
    to_child[1] = to_parent[0] = parents;
    to_parent[1] = to_child[0] = childs;
}

static void unix_open(int kind)
{
    int sockets[2];
    if (socketpair(AF_UNIX, kind, 0, sockets))
        die("socketpair");
    both_ways(sockets[0], sockets[1]);
}

static void stream_open(void) { unix_open(SOCK_STREAM); }
static void dgram_open(void) { unix_open(SOCK_DGRAM); }
static void seqpacket_open(void) { unix_open(SOCK_SEQPACKET); }

static int loopback(int kind, struct sockaddr_in *address)
{
    int s = socket(AF_INET, kind, 0);
    socklen_t length = sizeof *address;
    *address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (s < 0 || bind(s, (struct sockaddr *)address, length) || getsockname(s, (struct sockaddr *)address, &length))
        die("loopback");
    return s;
}

static void tcp_open(void)
{
    struct sockaddr_in address;
    int listener = loopback(SOCK_STREAM, &address), one = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (listen(listener, 1) || connect(one, (struct sockaddr *)&address, sizeof address))
        die("connect");
    int other = accept(listener, NULL, NULL);
    setsockopt(one, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(other, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    both_ways(one, other);
}

static void udp_open(void)
{
    struct sockaddr_in a, b;
    int one = loopback(SOCK_DGRAM, &a), other = loopback(SOCK_DGRAM, &b);
    if (connect(one, (struct sockaddr *)&b, sizeof b) || connect(other, (struct sockaddr *)&a, sizeof a))
        die("connect");
    both_ways(one, other);
}

static void socket_send(int direction)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = send(pair(direction)[1], message + done, size - done, MSG_NOSIGNAL);
        if (n < 0)
            die("send");
        done += n;
    }
}

static void socket_receive(int direction)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = recv(pair(direction)[0], message + done, size - done, 0);
        if (n <= 0)
            die("recv");
        done += n;
    }
}

static void eventfd_open(void)
{
    to_child[0] = to_child[1] = eventfd(0, 0);
    to_parent[0] = to_parent[1] = eventfd(0, 0);
    memset(message, 0x55, 8);
}

/* Message queues. */
static void mq_open_both(void)
{
    for (int direction = 0; direction < 2; direction++) {
        char name[64];
        struct mq_attr attributes = { .mq_maxmsg = size > 30000 ? 4 : 10, .mq_msgsize = size };
        snprintf(name, sizeof name, "/ping-pong-%d-%d", getpid(), direction);
        queues[direction][1] = mq_open(name, O_CREAT | O_EXCL | O_WRONLY, 0600, &attributes);
        queues[direction][0] = mq_open(name, O_RDONLY);
        mq_unlink(name);
        if (queues[direction][1] == -1 || queues[direction][0] == -1)
            die("mq_open");
    }
}

static void mq_put(int direction)
{
    if (mq_send(queues[direction][1], message, size, 0))
        die("mq_send");
}

static void mq_take(int direction)
{
    if (mq_receive(queues[direction][0], message, size, NULL) < 0)
        die("mq_receive");
}

static void sysv_open(void)
{
    for (int direction = 0; direction < 2; direction++)
        if ((system_v[direction] = msgget(IPC_PRIVATE, 0600)) < 0)
            die("msgget");
}

static long *envelope(void)
{
    static long *buffer;
    if (!buffer) {
        buffer = calloc(1, sizeof(long) + size);
        buffer[0] = 1;
    }
    return buffer;
}

static void sysv_put(int direction)
{
    memcpy(envelope() + 1, message, size);
    if (msgsnd(system_v[direction], envelope(), size, 0))
        die("msgsnd");
}

static void sysv_take(int direction)
{
    if (msgrcv(system_v[direction], envelope(), size, 0, 0) < 0)
        die("msgrcv");
    memcpy(message, envelope() + 1, size);
}

static void sysv_close(void)
{
    msgctl(system_v[0], IPC_RMID, NULL);
    msgctl(system_v[1], IPC_RMID, NULL);
}

/* Shared memory. */
static void shared_open(void)
{
    for (int direction = 0; direction < 2; direction++) {
        struct direction *d = mmap(NULL, sizeof *d + size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        pthread_mutexattr_t mutex;
        pthread_condattr_t condition;
        if (d == MAP_FAILED)
            die("mmap");
        sem_init(&d->semaphore, 1, 0);
        pthread_mutexattr_init(&mutex);
        pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(&d->mutex, &mutex);
        pthread_condattr_init(&condition);
        pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
        pthread_cond_init(&d->condition, &condition);
        shared[direction] = d;
    }
}

static void futex_send(int direction)
{
    struct direction *d = shared[direction];
    memcpy(d->bytes, message, size);
    atomic_fetch_add(&d->word, 1);
    if (atomic_load(&d->sleeps))
        syscall(SYS_futex, &d->word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void futex_receive(int direction)
{
    struct direction *d = shared[direction];
    while (atomic_load(&d->word) == 0) {
        atomic_store(&d->sleeps, 1);
        syscall(SYS_futex, &d->word, FUTEX_WAIT, 0, NULL, NULL, 0);
        atomic_store(&d->sleeps, 0);
    }
    atomic_fetch_sub(&d->word, 1);
    memcpy(message, d->bytes, size);
}

static void sem_send(int direction)
{
    memcpy(shared[direction]->bytes, message, size);
    sem_post(&shared[direction]->semaphore);
}

static void sem_receive(int direction)
{
    while (sem_wait(&shared[direction]->semaphore))
        ;
    memcpy(message, shared[direction]->bytes, size);
}

static void sysv_sem_open(void)
{
    shared_open();
    for (int direction = 0; direction < 2; direction++)
        if ((system_v[direction] = semget(IPC_PRIVATE, 1, 0600)) < 0)
            die("semget");
}

static void sysv_sem_add(int direction, int by)
{
    struct sembuf operation = { .sem_op = by };
    if (semop(system_v[direction], &operation, 1))
        die("semop");
}

static void sysv_sem_send(int direction)
{
    memcpy(shared[direction]->bytes, message, size);
    sysv_sem_add(direction, 1);
}

static void sysv_sem_receive(int direction)
{
    sysv_sem_add(direction, -1);
    memcpy(message, shared[direction]->bytes, size);
}

static void sysv_sem_close(void)
{
    semctl(system_v[0], 0, IPC_RMID);
    semctl(system_v[1], 0, IPC_RMID);
}

static void cond_send(int direction)
{
    struct direction *d = shared[direction];
    memcpy(d->bytes, message, size);
    pthread_mutex_lock(&d->mutex);
    d->value++;
    pthread_cond_signal(&d->condition);
    pthread_mutex_unlock(&d->mutex);
}

static void cond_receive(int direction)
{
    struct direction *d = shared[direction];
    pthread_mutex_lock(&d->mutex);
    while (d->value == 0)
        pthread_cond_wait(&d->condition, &d->mutex);
    d->value--;
    pthread_mutex_unlock(&d->mutex);
    memcpy(message, d->bytes, size);
}

static void shared_eventfd_open(void)
{
    shared_open();
    to_child[0] = to_child[1] = eventfd(0, EFD_SEMAPHORE);
    to_parent[0] = to_parent[1] = eventfd(0, EFD_SEMAPHORE);
}

static void shared_eventfd_send(int direction)
{
    uint64_t one = 1;
    memcpy(shared[direction]->bytes, message, size);
    if (write(pair(direction)[1], &one, 8) != 8)
        die("write");
}

static void shared_eventfd_receive(int direction)
{
    uint64_t one;
    if (read(pair(direction)[0], &one, 8) != 8)
        die("read");
    memcpy(message, shared[direction]->bytes, size);
}

/* Two counters that only grow, the bytes beside them. */
static void spin_send(int direction)
{
    struct direction *d = shared[direction];
    memcpy(d->bytes, message, size);
    atomic_store_explicit(&d->word, d->value += 1, memory_order_release);
}

static uint32_t seen[2];

static void spin_receive(int direction)
{
    struct direction *d = shared[direction];
    while (atomic_load_explicit(&d->word, memory_order_acquire) == seen[direction])
        PAUSE();
    seen[direction]++;
    memcpy(message, d->bytes, size);
}

/* Nothing but the flags: the least that two CPUs can exchange. */
static uint32_t sent[2];

static void flag_send(int direction)
{
    atomic_store_explicit(&shared[direction]->word, ++sent[direction], memory_order_release);
}

static void flag_receive(int direction)
{
    while (atomic_load_explicit(&shared[direction]->word, memory_order_acquire) == seen[direction])
        ;
    seen[direction]++;
}

/* Signals that carry a pointer. */
static sigset_t signals;

static void signal_open(void)
{
    sigemptyset(&signals);
    sigaddset(&signals, SIGRTMIN + 5);
    sigprocmask(SIG_BLOCK, &signals, NULL);
}

static void signalfd_open(void)
{
    signal_open();
    to_child[0] = to_parent[0] = signalfd(-1, &signals, 0);
}

static void signal_send(int direction)
{
    union sigval value;
    (void)direction;
    memcpy(&value, message, sizeof value);
    if (sigqueue(peer, SIGRTMIN + 5, value))
        die("sigqueue");
}

static void signal_receive(int direction)
{
    siginfo_t info;
    (void)direction;
    if (sigwaitinfo(&signals, &info) < 0)
        die("sigwaitinfo");
    memcpy(message, &info.si_value, sizeof info.si_value);
}

static void signalfd_receive(int direction)
{
    struct signalfd_siginfo info;
    if (read(pair(direction)[0], &info, sizeof info) != sizeof info)
        die("read");
    memcpy(message, &info.ssi_ptr, 8);
}

static const struct mechanism {
    const char *name;
    void (*open)(void);
    void (*send)(int direction);
    void (*receive)(int direction);
    void (*close)(void);
} mechanisms[] = {
    { "flag", shared_open, flag_send, flag_receive, NULL },
    { "memfd-spin", shared_open, spin_send, spin_receive, NULL },
    { "memfd-futex", shared_open, futex_send, futex_receive, NULL },
    { "memfd-sem", shared_open, sem_send, sem_receive, NULL },
    { "memfd-sysv-sem", sysv_sem_open, sysv_sem_send, sysv_sem_receive, sysv_sem_close },
    { "memfd-cond", shared_open, cond_send, cond_receive, NULL },
    { "memfd-eventfd", shared_eventfd_open, shared_eventfd_send, shared_eventfd_receive, NULL },
    { "posix-mq", mq_open_both, mq_put, mq_take, NULL },
    { "sysv-mq", sysv_open, sysv_put, sysv_take, sysv_close },
    { "pipe", pipe_open, fd_send, fd_receive, NULL },
    { "fifo", fifo_open, fd_send, fd_receive, NULL },
    { "unix-stream", stream_open, socket_send, socket_receive, NULL },
    { "unix-dgram", dgram_open, socket_send, socket_receive, NULL },
    { "unix-seqpacket", seqpacket_open, socket_send, socket_receive, NULL },
    { "tcp", tcp_open, socket_send, socket_receive, NULL },
    { "udp", udp_open, socket_send, socket_receive, NULL },
    { "eventfd", eventfd_open, fd_send, fd_receive, NULL },
    { "sigqueue", signal_open, signal_send, signal_receive, NULL },
    { "signalfd", signalfd_open, signal_send, signalfd_receive, NULL },
};

int main(int argc, char **argv)
{
    const struct mechanism *m = NULL;
    if (argc != 6) {
        fprintf(stderr, "usage: ping_pong MECHANISM SIZE ROUNDS CPU CPU\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof mechanisms / sizeof *mechanisms; i++)
        if (!strcmp(mechanisms[i].name, argv[1]))
            m = &mechanisms[i];
    size = atol(argv[2]);
    long rounds = atol(argv[3]);
    if (!m || size < 8 || rounds < 1) {
        fprintf(stderr, "no such mechanism, size or number: %s %s %s\n", argv[1], argv[2], argv[3]);
        return 2;
    }
    message = calloc(1, size);
    int64_t *took = calloc(rounds, sizeof *took);
    m->open();
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        peer = parent;
        pin(atoi(argv[5]));
        for (long i = 0; i < rounds + WARMUP; i++) {
            m->receive(0);
            m->send(1);
        }
        _exit(0);
    }
    peer = child;
    have_company();
    pin(atoi(argv[4]));
    for (long i = -WARMUP; i < rounds; i++) {
        int64_t from = now();
        m->send(0);
        m->receive(1);
        int64_t back = now();
        if (i >= 0)
            took[i] = back - from;
    }
    waitpid(child, NULL, 0);
    if (m->close)
        m->close();
    for (long i = 0; i < rounds; i++)
        printf("%lld\n", (long long)took[i]);
    return 0;
}
