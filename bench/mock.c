/* The model of the benchmark: an HTTP/1.1 keep-alive server that answers chat completions as fast as it can.
 *
 *     mock PORT        (0 picks a free port; the port is printed as the first line of output)
 *
 * A POST is answered as its header says:
 *
 *     x-mock: KIND EVENTS PACE_US NAME
 *
 *     json               one small JSON answer
 *     text EVENTS PACE   a stream of EVENTS text deltas, PACE microseconds apart (0: as fast as they are read)
 *     call EVENTS PACE NAME   the same, then a call of tool NAME in 20 deltas
 *
 * Each text carries "@T" and 19 digits: the CLOCK_MONOTONIC time in ns at which the event was made, always of
 * one length so that answers of one kind have one size. GET /stats tells how many connections and requests
 * were seen. One thread, epoll; no answer is held whole in memory, so a stream may be of any length.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_MAX = 32 << 10, READ_MAX = 256 << 10, OUT_HIGH = 128 << 10, OUT_ROOM = 4096, CONNS = 4096, DIGITS = 19 };

enum phase { HEAD, BODY, CHUNKED, ANSWER };

struct conn {
    int fd;
    enum phase phase;
    char head[HEAD_MAX];
    size_t head_len;
    uint64_t body_left;
    char tail[5]; /* last bytes of a chunked request */
    /* The answer under way: part `part` of `parts` is due next. */
    bool post, stream, writing;
    int part, parts, texts, fragments;
    uint64_t pace, next, due; /* ns; due: when the timer shall fire, 0 for never */
    char tool[65];
    char out[OUT_HIGH + OUT_ROOM];
    size_t out_len, out_off;
};

static struct conn *conns[CONNS];
static int epoll_fd, timer_fd, top; /* top: no connection's descriptor is above */
static uint64_t seen_connections, seen_requests;
static char input[READ_MAX];

/* A text delta in its chunk frame; the digits at `text_stamp` are filled in anew each time. */
static char text_frame[512];
static size_t text_len, text_stamp;

#define CHUNK_HEAD                                                                          \
    "data: {\"id\":\"chatcmpl-bench0001\",\"object\":\"chat.completion.chunk\","            \
    "\"created\":1764000000,\"model\":\"bench\",\"choices\":[{\"index\":0,\"delta\":"
#define CHUNK_TAIL ",\"logprobs\":null,\"finish_reason\":%s}]}\n\n"

static const char *const fragments[] = {
    "{\\\"", "file", "Path", "\\\":", " \\\"", "/work", "/project", "/src", "/server", "/handlers",
    "/chat", "_completions", ".py", "\\\",", " \\\"offset", "\\\": 1", "20, ", "\\\"limit", "\\\": 200", "0}",
};
enum { FRAGMENTS = sizeof fragments / sizeof *fragments };

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void stamp(char *at, uint64_t ns) {
    for (int i = DIGITS - 1; i >= 0; i--, ns /= 10) at[i] = (char)('0' + ns % 10);
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void put(struct conn *c, const char *bytes, size_t n) {
    memcpy(c->out + c->out_len, bytes, n);
    c->out_len += n;
}

/* Frame one event as one HTTP chunk. */
static void put_event(struct conn *c, const char *event) {
    char framed[1024];
    int n = snprintf(framed, sizeof framed, "%zx\r\n%s\r\n", strlen(event), event);
    put(c, framed, (size_t)n);
}

static void put_delta(struct conn *c, const char *delta, const char *finish) {
    char event[900];
    snprintf(event, sizeof event, CHUNK_HEAD "%s" CHUNK_TAIL, delta, finish);
    put_event(c, event);
}

static void make_text_frame(void) {
    char event[400];
    int n = snprintf(event, sizeof event, CHUNK_HEAD "{\"content\":\"@T%0*d caf\u00e9 \"}" CHUNK_TAIL, DIGITS, 0, "null");
    text_len = (size_t)snprintf(text_frame, sizeof text_frame, "%x\r\n%s\r\n", n, event);
    text_stamp = (size_t)(strstr(text_frame, "@T") + 2 - text_frame);
}

static void put_call(struct conn *c, int i) {
    char delta[400];
    if (i == 0)
        snprintf(delta, sizeof delta,
                 "{\"tool_calls\":[{\"index\":0,\"id\":\"call_bench01\",\"type\":\"function\","
                 "\"function\":{\"name\":\"%s\",\"arguments\":\"\"}}]}", c->tool);
    else
        snprintf(delta, sizeof delta, "{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"%s\"}}]}",
                 fragments[i - 1]);
    put_delta(c, delta, "null");
}

/* Append the next part of a stream: head and role, texts, the call, then finish and [DONE]. */
static void put_part(struct conn *c, const char *digits) {
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n";
    int i = c->part++;
    if (i == 0) {
        put(c, head, sizeof head - 1);
        put_delta(c, "{\"role\":\"assistant\",\"content\":\"\"}", "null");
    } else if (i <= c->texts) {
        put(c, text_frame, text_len);
        memcpy(c->out + c->out_len - text_len + text_stamp, digits, DIGITS);
    } else if (i < c->parts - 1) {
        put_call(c, i - 1 - c->texts);
    } else {
        put_delta(c, "{}", c->fragments ? "\"tool_calls\"" : "\"stop\"");
        put_event(c, "data: [DONE]\n\n");
        put(c, "0\r\n\r\n", 5);
    }
}

static void put_whole(struct conn *c, const char *body) {
    char head[200];
    int n = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                     strlen(body));
    put(c, head, (size_t)n);
    put(c, body, strlen(body));
}

static void put_json(struct conn *c) {
    static char body[1400];
    char digits[DIGITS + 1] = {0};
    stamp(digits, now_ns());
    snprintf(body, sizeof body,
             "{\"id\":\"chatcmpl-bench0001\",\"object\":\"chat.completion\",\"created\":1764000000,\"model\":\"bench\","
             "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"@T%s %0400d\","
             "\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\"}],"
             "\"usage\":{\"prompt_tokens\":512,\"completion_tokens\":128,\"total_tokens\":640}}",
             digits, 0);
    put_whole(c, body);
}

static void put_stats(struct conn *c) {
    char body[120];
    snprintf(body, sizeof body, "{\"connections\": %lu, \"requests\": %lu}", seen_connections, seen_requests);
    put_whole(c, body);
}

static void drop(struct conn *c) {
    conns[c->fd] = NULL;
    close(c->fd);
    free(c);
}

/* Wait for room to write only while something is left to write. */
static void watch(struct conn *c, bool writing) {
    if (writing == c->writing) return;
    c->writing = writing;
    struct epoll_event e = {.events = EPOLLIN | (writing ? EPOLLOUT : 0u), .data.fd = c->fd};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

static void arm(void) {
    uint64_t first = UINT64_MAX;
    for (int i = 0; i <= top; i++)
        if (conns[i] && conns[i]->due && conns[i]->due < first) first = conns[i]->due;
    struct itimerspec t = {0};
    if (first != UINT64_MAX) t.it_value = (struct timespec){(time_t)(first / 1000000000u), (long)(first % 1000000000u)};
    timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
}

/* Produce what is due and write as much as the client takes. False: the connection is gone. */
static bool advance(struct conn *c) {
    char digits[DIGITS];
    for (;;) {
        stamp(digits, now_ns());
        while (c->stream && !c->due && c->part < c->parts && c->out_len < OUT_HIGH) {
            put_part(c, digits);
            if (c->pace && c->part < c->parts) c->due = c->next += c->pace;
        }
        if (c->out_off == c->out_len) break;
        ssize_t n = send(c->fd, c->out + c->out_off, c->out_len - c->out_off, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            watch(c, true);
            return true;
        }
        if (n < 0) return false;
        c->out_off += (size_t)n;
        if (c->out_off == c->out_len) c->out_off = c->out_len = 0;
    }
    watch(c, false);
    if (c->phase == ANSWER && (!c->stream || c->part == c->parts)) {
        c->phase = HEAD;
        c->head_len = 0;
        c->due = 0;
    }
    return true;
}

static bool answer(struct conn *c, const char *spec) {
    char kind[16] = "json";
    unsigned events = 0, pace_us = 0;
    strcpy(c->tool, "read");
    if (spec) sscanf(spec, "%15s %u %u %64[A-Za-z0-9_-]", kind, &events, &pace_us, c->tool);
    c->phase = ANSWER;
    c->stream = c->post && strcmp(kind, "json") != 0;
    c->fragments = strcmp(kind, "call") == 0 ? FRAGMENTS + 1 : 0;
    c->texts = (int)events;
    c->part = 0;
    c->parts = 2 + c->texts + c->fragments;
    c->pace = (uint64_t)pace_us * 1000;
    c->next = now_ns();
    seen_requests += c->post;
    if (!c->post) put_stats(c);
    else if (!c->stream) put_json(c);
    return advance(c);
}

/* The value of a header in the head that was read, or NULL. */
static const char *header(struct conn *c, const char *name) {
    size_t n = strlen(name);
    for (char *line = strstr(c->head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, n) == 0 && line[2 + n] == ':') return line + 3 + n + strspn(line + 3 + n, " ");
    return NULL;
}

static bool feed_body(struct conn *c, const char *p, size_t n) {
    if (c->phase == BODY) {
        c->body_left -= n < c->body_left ? n : c->body_left;
        return c->body_left ? true : answer(c, header(c, "x-mock"));
    }
    /* JSON holds no bare CR LF, so this can only be the last chunk. */
    for (size_t i = n > 5 ? n - 5 : 0; i < n; i++) {
        memmove(c->tail, c->tail + 1, 4);
        c->tail[4] = p[i];
    }
    return memcmp(c->tail, "0\r\n\r\n", 5) ? true : answer(c, header(c, "x-mock"));
}

static bool feed(struct conn *c, const char *p, size_t n) {
    if (c->phase == ANSWER) return false; /* pipelining is not expected here */
    if (c->phase != HEAD) return feed_body(c, p, n);
    size_t before = c->head_len, take = n < HEAD_MAX - 1 - before ? n : HEAD_MAX - 1 - before;
    memcpy(c->head + before, p, take);
    c->head_len += take;
    c->head[c->head_len] = 0;
    char *end = strstr(c->head, "\r\n\r\n");
    if (!end) return c->head_len < HEAD_MAX - 1;
    size_t used = (size_t)(end + 4 - c->head) - before;
    end[2] = 0;
    const char *length = header(c, "content-length"), *coding = header(c, "transfer-encoding");
    c->post = strncmp(c->head, "POST ", 5) == 0;
    c->body_left = length ? strtoull(length, NULL, 10) : 0;
    c->phase = coding ? CHUNKED : BODY;
    memset(c->tail, 0, sizeof c->tail);
    return feed_body(c, p + used, n - used);
}

static void accept_all(int listener) {
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct conn *c = fd < CONNS ? calloc(1, sizeof *c) : NULL;
        if (!c) die("mock: too many connections");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        c->fd = fd;
        conns[fd] = c;
        if (fd > top) top = fd;
        seen_connections++;
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN, .data.fd = fd});
    }
}

static void tick(void) {
    uint64_t fired, now = now_ns();
    if (read(timer_fd, &fired, sizeof fired) < 0) return;
    for (int i = 0; i <= top; i++) {
        struct conn *c = conns[i];
        if (!c || !c->due || c->due > now) continue;
        c->due = 0;
        if (!advance(c)) drop(c);
    }
}

static void serve(struct conn *c, uint32_t events) {
    bool alive = true;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        ssize_t n = recv(c->fd, input, sizeof input, 0);
        alive = n > 0 ? feed(c, input, (size_t)n) : n < 0 && errno == EAGAIN;
    }
    if (alive && events & EPOLLOUT) alive = advance(c);
    if (!alive) drop(c);
}

static int listen_on(int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(fd, (struct sockaddr *)&a, size) || listen(fd, 1024) || getsockname(fd, (struct sockaddr *)&a, &size))
        die("mock: listen");
    printf("%d\n", ntohs(a.sin_port));
    fflush(stdout);
    return fd;
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: mock PORT\n"), 2;
    int listener = listen_on(atoi(argv[1]));
    make_text_frame();
    epoll_fd = epoll_create1(0);
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    int own[] = {listener, timer_fd};
    for (int i = 0; i < 2; i++)
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, own[i], &(struct epoll_event){.events = EPOLLIN, .data.fd = own[i]});
    for (;;) {
        struct epoll_event ready[64];
        int n = epoll_wait(epoll_fd, ready, 64, -1);
        if (n < 0 && errno != EINTR) die("mock: epoll");
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener) accept_all(fd);
            else if (fd == timer_fd) tick();
            else if (conns[fd]) serve(conns[fd], ready[i].events);
        }
        arm();
    }
}
