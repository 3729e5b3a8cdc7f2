/* The upstream of every benchmark: an engine that costs almost nothing, so that what is measured is the gateway.
 *
 *   engine PORT CHUNKS
 *
 * POST with "stream":true in the body: CHUNKS vLLM-shaped events, a usage event and [DONE], in one burst.
 * Any other POST: one chat completion of 362 bytes. GET: 200 (health, models).
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
#include <unistd.h>

enum { MAX_FD = 65536, BUFFER = 1 << 16 };

struct answer { char *bytes; size_t length; };
struct connection { char *buffer; size_t filled; const struct answer *answer; size_t sent; };

static struct connection connections[MAX_FD];
static struct answer unary, stream, health;
static int poller;

static const char USAGE[] = "\"usage\":{\"prompt_tokens\":42,\"total_tokens\":%d,\"completion_tokens\":%d}";

static struct answer make_unary(void) {
    char usage[128], body[1024], *out = NULL;
    snprintf(usage, sizeof usage, USAGE, 74, 32);
    int length = snprintf(body, sizeof body,
        "{\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion\",\"created\":1796090000,\"model\":\"m\","
        "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"A gateway stands between an application "
        "and its engines and decides which of them answers.\"},\"logprobs\":null,\"finish_reason\":\"stop\"}],%s}", usage);
    int total = asprintf(&out, "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s",
                         length, body);
    return (struct answer){out, (size_t)total};
}

static struct answer make_health(void) {
    static char text[] = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 69\r\n\r\n"
        "{\"object\":\"list\",\"data\":[{\"id\":\"m\",\"object\":\"model\",\"max_model_len\":32768}]}";
    char *body = strstr(text, "\r\n\r\n") + 4, *out = NULL;
    int total = asprintf(&out, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s", strlen(body), body);
    return (struct answer){out, (size_t)total};
}

static size_t add_event(char *at, const char *event) {
    return (size_t)sprintf(at, "%zx\r\n%s\r\n", strlen(event), event);
}

static struct answer make_stream(int chunks) {
    char *out = malloc(2048 + (size_t)chunks * 512), event[600], usage[128];
    size_t at = (size_t)sprintf(out, "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
                                     "transfer-encoding: chunked\r\n\r\n");
    for (int i = 0; i < chunks; i++) {
        snprintf(event, sizeof event,
            "data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1796090000,\"model\":\"m\","
            "\"choices\":[{\"index\":0,\"delta\":{\"content\":\" tok%d\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n", i);
        at += add_event(out + at, event);
    }
    snprintf(usage, sizeof usage, USAGE, 42 + chunks, chunks);
    snprintf(event, sizeof event, "data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1796090000,"
             "\"model\":\"m\",\"choices\":[],%s}\n\n", usage);
    at += add_event(out + at, event);
    at += add_event(out + at, "data: [DONE]\n\n");
    at += (size_t)sprintf(out + at, "0\r\n\r\n");
    return (struct answer){out, at};
}

static void close_connection(int fd) {
    free(connections[fd].buffer);
    memset(&connections[fd], 0, sizeof connections[fd]);
    close(fd);
}

static void watch(int fd, unsigned events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    epoll_ctl(poller, EPOLL_CTL_MOD, fd, &event);
}

static void send_more(int fd) {
    struct connection *c = &connections[fd];
    while (c->sent < c->answer->length) {
        ssize_t n = send(fd, c->answer->bytes + c->sent, c->answer->length - c->sent, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EAGAIN) { watch(fd, EPOLLIN | EPOLLOUT); return; }
            close_connection(fd);
            return;
        }
        c->sent += (size_t)n;
    }
    c->answer = NULL;
    watch(fd, EPOLLIN);
}

/* Length of the first complete request in the buffer, 0 while it is incomplete. */
static size_t request_length(char *text) {
    char *end = strstr(text, "\r\n\r\n");
    if (!end) return 0;
    char saved = end[2];
    end[2] = 0;
    char *length = strcasestr(text, "\r\ncontent-length:"), *chunked = strcasestr(text, "\r\ntransfer-encoding: chunked");
    end[2] = saved;
    size_t head = (size_t)(end - text) + 4;
    if (chunked && chunked < end) {
        char *last = strstr(end, "\r\n0\r\n\r\n");
        return last ? (size_t)(last - text) + 7 : 0;
    }
    size_t body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
    return strlen(text) >= head + body ? head + body : 0;
}

static void read_more(int fd) {
    struct connection *c = &connections[fd];
    ssize_t n = recv(fd, c->buffer + c->filled, BUFFER - 1 - c->filled, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN)) { close_connection(fd); return; }
    if (n < 0) return;
    c->filled += (size_t)n;
    c->buffer[c->filled] = 0;
    size_t length = request_length(c->buffer);
    if (!length) { if (c->filled >= BUFFER - 1) close_connection(fd); return; }
    int wants_stream = strstr(c->buffer, "\"stream\":true") || strstr(c->buffer, "\"stream\": true");
    c->answer = c->buffer[0] != 'P' ? &health : wants_stream ? &stream : &unary;
    c->sent = 0;
    c->filled = 0; /* clients of a benchmark do not pipeline */
    send_more(fd);
}

static void accept_all(int listener) {
    int fd, one = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (fd >= MAX_FD) { close(fd); continue; }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        connections[fd] = (struct connection){.buffer = malloc(BUFFER)};
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
    }
}

int main(int argc, char **argv) {
    if (argc != 3) { fprintf(stderr, "usage: engine PORT CHUNKS\n"); return 2; }
    unary = make_unary();
    stream = make_stream(atoi(argv[2]));
    health = make_health();
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096)) { perror("engine"); return 1; }
    poller = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, ready[512];
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int count = epoll_wait(poller, ready, 512, -1);
        for (int i = 0; i < count; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener) accept_all(fd);
            else if (ready[i].events & EPOLLOUT) send_more(fd);
            else read_more(fd);
        }
    }
}
