/* Closed-loop HTTP/1.1 load: CONNECTIONS keep-alive connections, each sends the next request when its answer is complete.
 *
 *   load PORT CONNECTIONS SECONDS REQUEST_FILE
 *
 * REQUEST_FILE holds one whole request. Prints one JSON line: requests, errors (non-2xx answers and lost connections),
 * bytes read, seconds, latency percentiles in microseconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CONNECTIONS = 4096, BUFFER = 1 << 17, SAMPLES = 1 << 22, TAIL = 7 };

struct connection { int fd; double began; int in_body, chunked, status; size_t left, filled; char head[16384]; char tail[TAIL]; };

static struct connection connections[MAX_CONNECTIONS];
static unsigned *latency;
static size_t samples, requests, errors, bytes;
static char *request;
static size_t request_size;
static int poller, port;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void begin(struct connection *c) {
    c->in_body = c->chunked = c->status = 0;
    c->left = c->filled = 0;
    c->began = now();
    if (send(c->fd, request, request_size, MSG_NOSIGNAL) != (ssize_t)request_size) errors++;
}

static void dial(struct connection *c) {
    int one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address)) { perror("load: connect"); exit(1); }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event);
    begin(c);
}

static void finish(struct connection *c) {
    requests++;
    if (c->status < 200 || c->status > 299) errors++;
    if (samples < SAMPLES) latency[samples++] = (unsigned)((now() - c->began) * 1e6);
    begin(c);
}

/* Takes the head from what has come; returns the bytes of `data` that belong to it, or -1 while it is incomplete. */
static ssize_t take_head(struct connection *c, const char *data, size_t size) {
    size_t room = sizeof c->head - 1 - c->filled, take = size < room ? size : room, before = c->filled;
    memcpy(c->head + c->filled, data, take);
    c->filled += take;
    c->head[c->filled] = 0;
    char *end = strstr(c->head, "\r\n\r\n");
    if (!end) return -1;
    end[2] = 0;
    c->status = atoi(c->head + 9);
    char *length = strcasestr(c->head, "\r\ncontent-length:");
    c->chunked = !length;
    c->left = length ? strtoul(length + 17, NULL, 10) : 0;
    c->in_body = 1;
    memset(c->tail, 0, sizeof c->tail);
    return (ssize_t)((size_t)(end - c->head) + 4 - before);
}

/* A chunked body ends with CRLF 0 CRLF CRLF; event streams of JSON hold no such bytes otherwise. */
static int chunked_done(struct connection *c, const char *data, size_t size) {
    for (size_t i = size > TAIL ? size - TAIL : 0; i < size; i++) {
        memmove(c->tail, c->tail + 1, TAIL - 1);
        c->tail[TAIL - 1] = data[i];
    }
    return !memcmp(c->tail, "\r\n0\r\n\r\n", TAIL);
}

static void receive(struct connection *c) {
    static char buffer[BUFFER];
    ssize_t n = recv(c->fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) { errors++; close(c->fd); dial(c); return; }
    bytes += (size_t)n;
    size_t at = 0, size = (size_t)n;
    if (!c->in_body) {
        ssize_t used = take_head(c, buffer, size);
        if (used < 0) return;
        at = (size_t)used;
    }
    if (c->chunked) {
        if (chunked_done(c, buffer + at, size - at)) finish(c);
    } else if (size - at >= c->left) finish(c);
    else c->left -= size - at;
}

static int ascending(const void *a, const void *b) {
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc != 5) { fprintf(stderr, "usage: load PORT CONNECTIONS SECONDS REQUEST_FILE\n"); return 2; }
    port = atoi(argv[1]);
    int count = atoi(argv[2]);
    double seconds = atof(argv[3]);
    FILE *file = fopen(argv[4], "rb");
    if (!file || count < 1 || count > MAX_CONNECTIONS) { fprintf(stderr, "load: bad arguments\n"); return 2; }
    request = malloc(1 << 20);
    request_size = fread(request, 1, 1 << 20, file);
    latency = malloc(sizeof *latency * SAMPLES);
    poller = epoll_create1(0);
    double began = now(), until = began + seconds;
    for (int i = 0; i < count; i++) dial(&connections[i]);
    struct epoll_event ready[256];
    while (now() < until) {
        int n = epoll_wait(poller, ready, 256, 100);
        for (int i = 0; i < n; i++) receive(ready[i].data.ptr);
    }
    double took = now() - began;
    qsort(latency, samples, sizeof *latency, ascending);
    printf("{\"requests\":%zu,\"errors\":%zu,\"bytes\":%zu,\"seconds\":%.3f,\"p50_us\":%u,\"p99_us\":%u}\n", requests, errors, bytes, took,
           samples ? latency[samples / 2] : 0, samples ? latency[samples * 99 / 100] : 0);
    return 0;
}
