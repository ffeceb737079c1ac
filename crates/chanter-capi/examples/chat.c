/*
 * A chat server. Each client has a thread that chooses between its socket and its channel of lines.
 *
 *     ./chat 7000        serves on port 7000
 *     ./chat             talks to itself for a moment, and checks what the clients read
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "chanter.h"

enum { MOST = 64, LINE = 512 };

static chanter_channel room; /* what clients say */
static struct client {
    chanter_channel lines;
    int socket;
} clients[MOST];
static chanter_channel places; /* free places in `clients` */

static void stop(const char *what, int error) {
    if (error == 0) return;
    fprintf(stderr, "chat: %s: %s\n", what, strerror(error));
    exit(1);
}

static void destroy(uint64_t line) { free(CHANTER_POINTER(line)); }

static chanter_case a_case(int kind, uint64_t handle) {
    chanter_case one;
    memset(&one, 0, sizeof one);
    one.size = sizeof one;
    one.kind = kind;
    one.handle = handle;
    return one;
}

/* Gives every client a copy of each line. A client that does not read misses lines. */
static void *repeats(void *arg) {
    uint64_t line;
    while (chanter_recv(room, &line, CHANTER_FOREVER) == 0) {
        for (int n = 0; n < MOST; n++) {
            chanter_channel to = __atomic_load_n(&clients[n].lines, __ATOMIC_ACQUIRE);
            char *copy = to == 0 ? NULL : strdup(CHANTER_POINTER(line));
            if (copy != NULL && chanter_send(to, CHANTER_WORD(copy), 0) != 0) free(copy);
        }
        destroy(line);
    }
    return arg;
}

static int write_all(int socket, const char *text) {
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t written = send(socket, text, left, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (written >= 0) {
            text += written;
            left -= (size_t)written;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            chanter_case writable = a_case(CHANTER_CASE_WRITABLE, (uint64_t)socket);
            stop("choose", chanter_choose(&writable, 1, CHANTER_FOREVER, NULL));
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return 0;
}

/* Reads what there is, and passes each whole line on. 0: the client has gone. */
static int reads(int socket, char *buffer, size_t *filled) {
    ssize_t got = recv(socket, buffer + *filled, LINE - 1 - *filled, MSG_DONTWAIT);
    char *end;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    if (got == 0) return 0;
    *filled += (size_t)got;
    buffer[*filled] = '\0';
    while ((end = strchr(buffer, '\n')) != NULL || *filled == LINE - 1) {
        size_t length = end == NULL ? *filled : (size_t)(end - buffer) + 1;
        char *line = malloc(length + 1);
        if (line == NULL) return 0;
        memcpy(line, buffer, length);
        line[length] = '\0';
        memmove(buffer, buffer + length, *filled - length + 1);
        *filled -= length;
        if (chanter_send(room, CHANTER_WORD(line), CHANTER_FOREVER) != 0) {
            free(line);
            return 0;
        }
    }
    return 1;
}

static void leaves(void *arg) {
    struct client *me = arg;
    chanter_channel_free(__atomic_exchange_n(&me->lines, 0, __ATOMIC_ACQ_REL));
    close(me->socket);
    chanter_send(places, (uint64_t)(me - clients), 0);
}

static void *serves(void *arg) {
    struct client *me = arg;
    char buffer[LINE];
    size_t filled = 0;
    stop("push", chanter_cleanup_push(leaves, me));
    for (;;) {
        size_t chosen;
        chanter_case cases[2];
        cases[0] = a_case(CHANTER_CASE_READABLE, (uint64_t)me->socket);
        cases[1] = a_case(CHANTER_CASE_RECV, me->lines);
        if (chanter_choose(cases, 2, CHANTER_FOREVER, &chosen) != 0) break;
        if (chosen == 0 && !reads(me->socket, buffer, &filled)) break;
        if (chosen == 1) {
            int failed;
            if (cases[1].status != 0) break;
            failed = write_all(me->socket, CHANTER_POINTER(cases[1].value));
            destroy(cases[1].value);
            if (failed) break;
        }
    }
    stop("pop", chanter_cleanup_pop(1));
    return NULL;
}

static int listener;

/* Accepts until it is cancelled. */
static void *accepts(void *arg) {
    for (;;) {
        chanter_case readable = a_case(CHANTER_CASE_READABLE, (uint64_t)listener);
        uint64_t place;
        chanter_channel lines;
        int socket;
        chanter_attr detached;
        stop("choose", chanter_choose(&readable, 1, CHANTER_FOREVER, NULL));
        socket = accept(listener, NULL, NULL);
        if (socket < 0) continue;
        if (chanter_recv(places, &place, 0) != 0) {
            close(socket); /* The room is full. */
            continue;
        }
        memset(&detached, 0, sizeof detached);
        detached.size = sizeof detached;
        detached.flags = CHANTER_DETACHED;
        clients[place].socket = socket;
        stop("channel", chanter_channel_create(32, destroy, &lines));
        __atomic_store_n(&clients[place].lines, lines, __ATOMIC_RELEASE);
        stop("spawn", chanter_thread_spawn(CHANTER_NONE, &detached, serves, &clients[place], NULL));
    }
    return arg;
}

static void *talks(void *arg) {
    struct sockaddr_in *address = arg;
    int sockets[3];
    for (int n = 0; n < 3; n++) {
        chanter_case writable;
        sockets[n] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(sockets[n], (struct sockaddr *)address, sizeof *address) != 0) stop("connect", errno);
        writable = a_case(CHANTER_CASE_WRITABLE, (uint64_t)sockets[n]);
        stop("choose", chanter_choose(&writable, 1, CHANTER_FOREVER, NULL));
    }
    /* All three are in the room when each has heard itself. */
    for (int n = 0; n < 3; n++) {
        char said[16], heard[LINE];
        size_t filled = 0;
        snprintf(said, sizeof said, "client %d\n", n);
        if (write_all(sockets[n], said) != 0) stop("send", EPIPE);
        do {
            chanter_case readable = a_case(CHANTER_CASE_READABLE, (uint64_t)sockets[n]);
            ssize_t got;
            stop("choose", chanter_choose(&readable, 1, CHANTER_FOREVER, NULL));
            got = recv(sockets[n], heard + filled, LINE - 1 - filled, MSG_DONTWAIT);
            if (got <= 0) stop("recv", EPIPE);
            filled += (size_t)got;
            heard[filled] = '\0';
        } while (strstr(heard, said) == NULL);
    }
    for (int n = 0; n < 3; n++) close(sockets[n]);
    puts("each client has heard itself");
    return NULL;
}

static void *everything(void *arg) {
    int port = *(int *)arg;
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    chanter_thread accepter, repeater;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)port);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 64) != 0) stop("listen", errno);
    getsockname(listener, (struct sockaddr *)&address, &length);
    printf("the room is at 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    stop("channel", chanter_channel_create(64, destroy, &room));
    stop("channel", chanter_channel_create(MOST, NULL, &places));
    for (uint64_t n = 0; n < MOST; n++) stop("send", chanter_send(places, n, 0));
    stop("spawn", chanter_thread_spawn(CHANTER_NONE, NULL, repeats, NULL, &repeater));
    stop("spawn", chanter_thread_spawn(CHANTER_NONE, NULL, accepts, NULL, &accepter));
    if (port == 0) {
        talks(&address);
        stop("cancel", chanter_thread_cancel(accepter));
    }
    chanter_thread_join(accepter, NULL, CHANTER_FOREVER);
    stop("close", chanter_channel_close(room));
    stop("join", chanter_thread_join(repeater, NULL, CHANTER_FOREVER));
    close(listener);
    return NULL;
}

int main(int argc, char **argv) {
    chanter_machine machine;
    int port = argc > 1 ? atoi(argv[1]) : 0;
    stop("machine", chanter_machine_create(NULL, &machine));
    stop("run", chanter_machine_run(machine, everything, &port, NULL));
    stop("free", chanter_machine_free(machine));
    return 0;
}
