/* The client of the benchmark: a closed loop of N keep-alive connections, each sending the same request again
 * as soon as its answer is complete. One thread, epoll.
 *
 *     load --port P --path PATH --body FILE [--header 'NAME: VALUE'] [--connections N]
 *          [--seconds S | --requests N] [--limit S] [--checksum]
 *
 * After S seconds no request is begun; those under way are waited for. --limit bounds the whole run. Prints one
 * line of JSON; times are in microseconds:
 *
 *     requests, errors, connects, seconds, rps
 *     p50, p99            request sent to last byte
 *     ttfb                request sent to first byte of the body, median
 *     delay, delay_p99    event made (the "@T" stamp of mock.c) to event read
 *     events              stamps seen
 *     bytes_min, bytes_max  of one answer's body, without chunk framing
 *     checksum            FNV-1a of the body, stamps counted as zeros; 0 unless asked for, and where answers differ
 *     error               the first one, if any
 *
 * An answer is an error unless its status is 200, it is complete and, for a stream, ends in "data: [DONE]".
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_MAX = 16 << 10, READ_MAX = 256 << 10, DIGITS = 19, DONE_LEN = 14, SAMPLES = 4 << 20 };

enum phase { IDLE, SENDING, HEAD, SIZED, CHUNK_SIZE, CHUNK, CHUNK_END, TRAILER, COMPLETE };

struct conn {
    int fd;
    enum phase phase;
    bool used, close, sse;
    size_t sent;
    char head[HEAD_MAX];
    size_t head_len;
    uint64_t left, line; /* bytes left of the body or chunk; length of the current trailer line */
    uint64_t began, bytes, hash;
    int matched; /* of "@T" and its digits */
    uint64_t stamped;
    char tail[DONE_LEN];
};

struct samples {
    uint32_t *us10; /* tenths of a microsecond */
    size_t n;
};

static const char *path = "/", *extra = "", *body_file;
static int port, connections = 1;
static double seconds = 1, limit = 60;
static uint64_t request_limit;
static bool checksum;

static char *request;
static size_t request_len;
static int epoll_fd, busy;
static uint64_t started, begun, requests, errors, connects, events, bytes_min = UINT64_MAX, bytes_max, first_hash;
static bool hashes_differ;
static char first_error[200];
static struct samples latency, ttfb, delay;
static char input[READ_MAX];

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void sample(struct samples *s, uint64_t ns) {
    if (!s->us10 && !(s->us10 = malloc(SAMPLES * sizeof *s->us10))) die("load: memory");
    if (s->n < SAMPLES) s->us10[s->n++] = (uint32_t)(ns / 100);
}

static int compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Needs the samples sorted. */
static double quantile(const struct samples *s, double q) {
    return s->n ? s->us10[(size_t)(q * (double)(s->n - 1) + 0.5)] / 10.0 : 0;
}

static void fail(const char *what, const char *detail) {
    if (!errors++) {
        snprintf(first_error, sizeof first_error, "%s %.120s", what, detail);
        for (char *p = first_error; *p; p++)
            if (*p < ' ' || *p == '"' || *p == '\\') *p = ' ';
    }
}

static void hash(struct conn *c, const char *p, size_t n) {
    for (size_t i = 0; i < n; i++) c->hash = (c->hash ^ (unsigned char)p[i]) * 0x100000001b3u;
}

static void keep_tail(struct conn *c, const char *p, size_t n) {
    if (n >= DONE_LEN) {
        memcpy(c->tail, p + n - DONE_LEN, DONE_LEN);
    } else {
        memmove(c->tail, c->tail + n, DONE_LEN - n);
        memcpy(c->tail + DONE_LEN - n, p, n);
    }
}

/* Take the next byte of a stamp; `matched` counts '@', 'T' and the digits. */
static void stamp_byte(struct conn *c, char b, uint64_t now) {
    bool digit = b >= '0' && b <= '9';
    if (c->matched == 1 ? b != 'T' : !digit) {
        c->matched = b == '@';
        if (checksum) hash(c, &b, 1);
        return;
    }
    c->stamped = c->matched == 1 ? 0 : c->stamped * 10 + (uint64_t)(b - '0');
    if (checksum) hash(c, digit ? "0" : &b, 1);
    if (++c->matched == 2 + DIGITS) {
        c->matched = 0;
        events++;
        sample(&delay, now - c->stamped);
    }
}

static void body(struct conn *c, const char *p, size_t n, uint64_t now) {
    if (!c->bytes) sample(&ttfb, now - c->began);
    c->bytes += n;
    keep_tail(c, p, n);
    for (const char *end = p + n; p < end;) {
        if (c->matched) {
            stamp_byte(c, *p++, now);
            continue;
        }
        const char *at = memchr(p, '@', (size_t)(end - p));
        const char *stop = at ? at + 1 : end;
        if (checksum) hash(c, p, (size_t)(stop - p));
        c->matched = at != NULL;
        p = stop;
    }
}

static const char *header(struct conn *c, const char *name) {
    size_t n = strlen(name);
    for (char *line = strstr(c->head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, n) == 0 && line[2 + n] == ':') return line + 3 + n + strspn(line + 3 + n, " ");
    return NULL;
}

/* Read the head. Returns the bytes taken of this input, or -1 where the answer cannot be read. */
static ssize_t head(struct conn *c, const char *p, size_t n) {
    size_t before = c->head_len, take = n < HEAD_MAX - 1 - before ? n : HEAD_MAX - 1 - before;
    memcpy(c->head + before, p, take);
    c->head_len += take;
    c->head[c->head_len] = 0;
    char *end = strstr(c->head, "\r\n\r\n");
    if (!end && c->head_len < HEAD_MAX - 1) return (ssize_t)n;
    if (!end) return fail("head", "too large"), -1;
    end[2] = 0;
    const char *length = header(c, "content-length"), *type = header(c, "content-type"), *keep = header(c, "connection");
    if (strncmp(c->head, "HTTP/1.1 200", 12)) return fail("status", c->head), -1;
    if (!length && !header(c, "transfer-encoding")) return fail("framing", "neither length nor chunks"), -1;
    c->sse = type && strncasecmp(type, "text/event-stream", 17) == 0;
    c->close = keep && strncasecmp(keep, "close", 5) == 0;
    c->left = length ? strtoull(length, NULL, 10) : 0;
    c->phase = !length ? CHUNK_SIZE : c->left ? SIZED : COMPLETE;
    c->line = 0;
    return end + 4 - c->head - (ssize_t)before;
}

/* One byte of chunk framing. False: not a chunk. */
static bool framing(struct conn *c, char b) {
    if (c->phase == TRAILER) {
        if (b == '\n' && !c->line) c->phase = COMPLETE;
        c->line = b == '\n' ? 0 : b == '\r' ? c->line : c->line + 1;
    } else if (c->phase == CHUNK_END) {
        if (b == '\n') c->phase = CHUNK_SIZE, c->left = 0;
        else return b == '\r';
    } else if (b == '\n') {
        c->phase = c->left ? CHUNK : TRAILER;
    } else if (b != '\r') {
        int digit = b >= '0' && b <= '9' ? b - '0' : (b | 32) >= 'a' && (b | 32) <= 'f' ? (b | 32) - 'a' + 10 : -1;
        if (digit < 0) return false;
        c->left = c->left * 16 + (uint64_t)digit;
    }
    return true;
}

static bool parse(struct conn *c, const char *p, size_t n, uint64_t now) {
    for (const char *end = p + n; p < end && c->phase != COMPLETE;) {
        size_t have = (size_t)(end - p);
        if (c->phase == HEAD) {
            ssize_t took = head(c, p, have);
            if (took < 0) return false;
            p += took;
        } else if (c->phase == SIZED || c->phase == CHUNK) {
            size_t take = have < c->left ? have : c->left;
            body(c, p, take, now);
            p += take;
            c->left -= take;
            if (!c->left) c->phase = c->phase == CHUNK ? CHUNK_END : COMPLETE;
        } else if (!framing(c, *p++)) {
            return fail("framing", "not a chunk"), false;
        }
    }
    return true;
}

static void reconnect(struct conn *c) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (c->fd >= 0) close(c->fd);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&a, sizeof a)) die("load: connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &e);
    connects++;
    c->used = c->close = false;
}

static void transmit(struct conn *c) {
    while (c->sent < request_len) {
        ssize_t n = send(c->fd, request + c->sent, request_len - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) return; /* full, or broken: reading will tell which */
        c->sent += (size_t)n;
    }
    c->phase = HEAD;
}

/* Send the request again, unless the run is over. */
static void begin(struct conn *c) {
    uint64_t now = now_ns();
    if (request_limit ? begun == request_limit : (double)(now - started) > seconds * 1e9) {
        c->phase = IDLE;
        busy--;
        return;
    }
    begun++;
    if (c->fd < 0 || c->close) reconnect(c);
    c->head_len = c->sent = 0;
    c->bytes = 0;
    c->matched = 0;
    c->hash = 0xcbf29ce484222325u;
    memset(c->tail, 0, sizeof c->tail);
    c->phase = SENDING;
    c->began = now_ns();
    transmit(c);
}

static void complete(struct conn *c, uint64_t now) {
    if (c->sse && memcmp(c->tail, "data: [DONE]\n\n", DONE_LEN)) fail("stream ended without [DONE]", "");
    requests++;
    sample(&latency, now - c->began);
    if (c->bytes < bytes_min) bytes_min = c->bytes;
    if (c->bytes > bytes_max) bytes_max = c->bytes;
    if (requests == 1) first_hash = c->hash;
    hashes_differ |= c->hash != first_hash;
    c->used = true;
    begin(c);
}

/* The connection ended: send again where it was an idle one that the server had closed, else an error. */
static void lost(struct conn *c, const char *why) {
    bool retry = c->used && c->phase <= HEAD && !c->head_len;
    c->close = true;
    if (c->phase == IDLE) return;
    if (retry) begun--;
    else if (why) fail("connection", why);
    begin(c);
}

static void serve(struct conn *c, uint32_t ready) {
    if (c->phase == SENDING && ready & EPOLLOUT) transmit(c);
    if (!(ready & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
    for (;;) { /* edge-triggered: until there is no more */
        ssize_t n = recv(c->fd, input, sizeof input, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) return lost(c, n ? strerror(errno) : "closed before the answer was complete");
        uint64_t now = now_ns();
        if (c->phase == SENDING) c->phase = HEAD; /* answered before the request was read: an error, surely */
        if (!parse(c, input, (size_t)n, now)) return lost(c, NULL);
        if (c->phase == COMPLETE) complete(c, now);
        if ((size_t)n < sizeof input && !(ready & EPOLLRDHUP)) return;
    }
}

static void read_request(void) {
    FILE *f = fopen(body_file, "rb");
    if (!f || fseek(f, 0, SEEK_END)) die(body_file);
    size_t size = (size_t)ftell(f);
    rewind(f);
    request = malloc(size + HEAD_MAX);
    int n = snprintf(request, HEAD_MAX,
                     "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer sk-bench\r\nUser-Agent: bench\r\n"
                     "Accept: */*\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%s%s\r\n",
                     path, port, size, extra, *extra ? "\r\n" : "");
    request_len = (size_t)n + size;
    if (n >= HEAD_MAX || fread(request + n, 1, size, f) != size) die(body_file);
    fclose(f);
}

static void report(double elapsed) {
    struct samples *all[] = {&latency, &ttfb, &delay};
    for (int i = 0; i < 3; i++)
        if (all[i]->n) qsort(all[i]->us10, all[i]->n, sizeof(uint32_t), compare);
    printf("{\"requests\": %lu, \"errors\": %lu, \"connects\": %lu, \"seconds\": %.6f, \"rps\": %.2f, "
           "\"p50\": %.1f, \"p99\": %.1f, \"ttfb\": %.1f, \"delay\": %.1f, \"delay_p99\": %.1f, \"events\": %lu, "
           "\"bytes_min\": %lu, \"bytes_max\": %lu, \"checksum\": \"%016lx\", \"error\": \"%s\"}\n",
           requests, errors, connects, elapsed, (double)requests / elapsed, quantile(&latency, .5),
           quantile(&latency, .99), quantile(&ttfb, .5), quantile(&delay, .5), quantile(&delay, .99), events,
           requests ? bytes_min : 0, bytes_max, checksum && !hashes_differ ? first_hash : 0, first_error);
}

static void options(int argc, char **argv) {
    static const struct option known[] = {
        {"port", 1, 0, 'p'},    {"path", 1, 0, 'P'},     {"body", 1, 0, 'b'},  {"header", 1, 0, 'H'},   {"connections", 1, 0, 'c'},
        {"seconds", 1, 0, 's'}, {"requests", 1, 0, 'n'}, {"limit", 1, 0, 'l'}, {"checksum", 0, 0, 'x'}, {0}};
    for (int o; (o = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (o == 'p') port = atoi(optarg);
        else if (o == 'P') path = optarg;
        else if (o == 'b') body_file = optarg;
        else if (o == 'H') extra = optarg;
        else if (o == 'c') connections = atoi(optarg);
        else if (o == 's') seconds = atof(optarg);
        else if (o == 'n') request_limit = strtoull(optarg, NULL, 10);
        else if (o == 'l') limit = atof(optarg);
        else if (o == 'x') checksum = true;
        else exit(2);
    }
    if (!port || !body_file || connections < 1) fprintf(stderr, "load: --port and --body are needed\n"), exit(2);
}

int main(int argc, char **argv) {
    options(argc, argv);
    read_request();
    epoll_fd = epoll_create1(0);
    started = now_ns();
    busy = connections;
    for (int i = 0; i < connections; i++) {
        struct conn *c = calloc(1, sizeof *c);
        if (!c) die("load: memory");
        c->fd = -1;
        begin(c);
    }
    while (busy && (double)(now_ns() - started) < limit * 1e9 && errors < 100) {
        struct epoll_event ready[64];
        int n = epoll_wait(epoll_fd, ready, 64, 200);
        for (int i = 0; i < n; i++) serve(ready[i].data.ptr, ready[i].events);
    }
    if (busy && errors < 100) fail("timeout", "requests were still under way at the limit");
    report((double)(now_ns() - started) / 1e9);
    return errors != 0;
}
