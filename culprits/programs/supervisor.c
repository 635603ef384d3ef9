/* A seccomp filter sends one system call to a supervisor in another process, which takes its time. */
#include "culprit.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static int channel[2];

static void send_descriptor(int descriptor)
{
    char byte = 'x', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    if (sendmsg(channel[0], &message, 0) != 1)
        die("sendmsg");
}

static int received_descriptor(void)
{
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int descriptor;
    if (recvmsg(channel[1], &message, 0) != 1)
        _exit(1);
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    return descriptor;
}

static void supervise(void *nothing)
{
    int listener = received_descriptor();
    int64_t takes = draw(2, 6) * MS;
    for (;;) {
        struct seccomp_notif request = {0};
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request))
            _exit(0);
        sleep_for(takes);
        struct seccomp_notif_resp answer = {.id = request.id, .val = 1};
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
    (void)nothing;
}

int main(void)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};
    char named[16];
    int64_t lost = 0, times = 0;
    snprintf(named, sizeof named, "warden-%d", (int)draw(10, 99));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel))
        die("socketpair");
    helper(named, supervise, NULL);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        die("prctl");
    int listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
    if (listener < 0)
        die("seccomp");
    send_descriptor(listener);
    int64_t begin = now();
    for (; now() - begin < 2 * SECOND; times++) {
        int64_t at = now();
        syscall(SYS_getppid);
        lost += now() - at;
        sleep_for(3 * MS);
    }
    tell(now() - begin, lost, times, "\"culprit\": \"%s\"", named);
    _exit(0);
}
