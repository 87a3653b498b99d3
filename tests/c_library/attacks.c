/* Calls that make no sense, to a library in ./libattacked.so: each gets its code and a text, nothing
   is written, and the session goes on. `test_attacks.py` makes the files and reads what is said. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attacked.h"

enum { ROWS = 8, IN = 16, OUT = 24, MISSING = -100 };

static const cellc_library *net, *other;
static cellc_session *s, *theirs;
static cellc_error error;
static _Alignas(64) float x[ROWS * IN], y[ROWS * OUT], want[ROWS * OUT];
static char filler[5001];
static int bad, tried;

static void judge(const char *what, int got, int code) {
    int told = code == CELLC_OK ? error.length == 0 : error.length > 10 && error.length < 1016;
    int fine = got == code && error.code == code && told
               && (int)strlen(error.text) == error.length;
    tried++;
    bad += !fine;
    printf("%s %s: %d %s\n", fine ? "ok" : "BAD", what, got, error.text);
    memset(&error, 'x', sizeof error);
}

/* Each call is made with a place for the error and without. */
#define TRY(what, code, call)                                                                      \
    do {                                                                                           \
        cellc_error *e = &error;                                                                   \
        judge(what, call, code);                                                                   \
        e = NULL;                                                                                  \
        int silent = call;                                                                         \
        if (silent != (code)) bad++, printf("BAD without a place: %s: %d\n", what, silent);        \
        (void)e;                                                                                   \
    } while (0)

static cellc_tensor input(void) {
    return (cellc_tensor){x, sizeof x, CELLC_FLOAT32, 2, {ROWS, IN}};
}

static cellc_tensor output(void) {
    return (cellc_tensor){y, sizeof y, CELLC_FLOAT32, 0, {0}};
}

static void still_right(void) {
    cellc_tensor in = input(), out = output();
    memset(y, 7, sizeof y);
    if (net->run(s, ATTACKED_INFER, &in, 1, &out, 1, NULL) || memcmp(y, want, sizeof y))
        bad++, printf("BAD the session does not go on\n");
    memset(y, 7, sizeof y);
}

/* Of outputs, that nothing was written. */
static void untouched(const char *what) {
    for (size_t i = 0; i < sizeof y; i++)
        if (((char *)y)[i] != 7) {
            bad++, printf("BAD %s wrote an output\n", what);
            memset(y, 7, sizeof y);
            return;
        }
}

static int create_from(const char *path, cellc_error *e) {
    cellc_options options = {path, 0, 0};
    cellc_session *made = (cellc_session *)&options;
    int code = net->create(net, &options, &made, e);
    if ((code == CELLC_OK) != (made != NULL)) return MISSING;
    net->destroy(made);
    return code;
}

static int create_with(int threads, cellc_error *e) {
    cellc_options options = {NULL, threads, -1};
    cellc_session *made;
    int code = net->create(net, &options, &made, e);
    if (code == CELLC_OK) net->destroy(made);
    return code;
}

static void creates(void) {
    TRY("create without a place", CELLC_ARGUMENT, net->create(net, NULL, NULL, e));
    int counts[] = {-1, 1025, INT_MIN, INT_MAX};
    for (int i = 0; i < 4; i++) TRY("create with threads", CELLC_ARGUMENT, create_with(counts[i], e));
    struct { const char *path; int code; } files[] = {
        {"", CELLC_FILE}, {"missing", CELLC_FILE}, {"missing/w", CELLC_FILE}, {".", CELLC_FILE},
        {"pipe", CELLC_FILE}, {"/dev/null", CELLC_FILE}, {"/dev/zero", CELLC_FILE},
        {"empty", CELLC_WEIGHTS}, {"short", CELLC_WEIGHTS}, {"long", CELLC_WEIGHTS},
        {"mutated", CELLC_WEIGHTS}, {"others", CELLC_WEIGHTS}, {"attacked.h", CELLC_WEIGHTS},
        {"dangling", CELLC_FILE}, {"loop", CELLC_FILE}, {filler, CELLC_FILE}, {"good/w", CELLC_FILE},
        {"good", CELLC_OK}, {"link", CELLC_OK}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char what[60];
        snprintf(what, sizeof what, "create with the file %.30s", files[i].path);
        TRY(what, files[i].code, create_from(files[i].path, e));
    }
}

static void sessions(void) {
    cellc_session *made;
    TRY("clone of NULL", CELLC_ARGUMENT, net->clone(NULL, &made, e));
    TRY("clone without a place", CELLC_ARGUMENT, net->clone(s, NULL, e));
    TRY("clone of another library's", CELLC_ARGUMENT, net->clone(theirs, &made, e));
    TRY("reset of NULL", CELLC_ARGUMENT, net->reset(NULL, e));
    TRY("reset of another library's", CELLC_ARGUMENT, net->reset(theirs, e));
    net->destroy(NULL);
    net->destroy(theirs); /* not one of this library: nothing */
    TRY("their session goes on", CELLC_OK, other->reset(theirs, e));
    TRY("threads 0", CELLC_ARGUMENT, net->set_threads(net, 0, e));
    TRY("threads -1", CELLC_ARGUMENT, net->set_threads(net, -1, e));
    TRY("threads 1025", CELLC_ARGUMENT, net->set_threads(net, 1025, e));
    TRY("threads 2", CELLC_OK, net->set_threads(net, 2, e));
    if (net->find(NULL, "infer") != -1 || net->find(net, NULL) != -1 || net->find(net, "") != -1
        || net->find(net, filler) != -1 || net->find(net, "infer") != ATTACKED_INFER)
        bad++, printf("BAD find\n");
}

static int measure(cellc_session *of, int entry, cellc_tensor in, int nin, cellc_error *e) {
    cellc_tensor out = output();
    int code = net->measure(of, entry, &in, nin, &out, 1, e);
    if (code && (out.nbytes != sizeof y || out.ndim != 0)) return MISSING;
    return code;
}

static int run(cellc_tensor in, cellc_tensor out, cellc_error *e) {
    return net->run(s, ATTACKED_INFER, &in, 1, &out, 1, e);
}

static void measures(void) {
    int entries[] = {-1, INT_MAX, INT_MIN, 99};
    for (int i = 0; i < 4; i++)
        TRY("measure of no entry", CELLC_ARGUMENT, measure(s, entries[i], input(), 1, e));
    int counts[] = {-1, 0, 2, INT_MAX, INT_MIN};
    for (int i = 0; i < 5; i++)
        TRY("measure of a number of inputs", CELLC_ARGUMENT,
            measure(s, ATTACKED_INFER, input(), counts[i], e));
    TRY("measure by another library's", CELLC_ARGUMENT,
        measure(theirs, ATTACKED_INFER, input(), 1, e));
    TRY("measure by NULL", CELLC_ARGUMENT, measure(NULL, ATTACKED_INFER, input(), 1, e));
}

static void inputs(int asks) {
    struct { const char *what; int code; cellc_tensor t; } cases[] = {
        {"9 axes", CELLC_SHAPE, {x, sizeof x, CELLC_FLOAT32, 9, {ROWS, IN}}},
        {"-1 axes", CELLC_SHAPE, {x, sizeof x, CELLC_FLOAT32, -1, {ROWS, IN}}},
        {"INT_MIN axes", CELLC_SHAPE, {x, sizeof x, CELLC_FLOAT32, INT_MIN, {ROWS, IN}}},
        {"1 axis", CELLC_SHAPE, {x, sizeof x, CELLC_FLOAT32, 1, {ROWS * IN}}},
        {"type 99", CELLC_DTYPE, {x, sizeof x, 99, 2, {ROWS, IN}}},
        {"type -1", CELLC_DTYPE, {x, sizeof x, -1, 2, {ROWS, IN}}},
        {"no type", CELLC_DTYPE, {x, sizeof x, CELLC_ANY, 2, {ROWS, IN}}},
        {"doubles", CELLC_DTYPE, {x, sizeof x, CELLC_FLOAT64, 2, {ROWS / 2, IN}}},
        {"-1 rows", CELLC_SHAPE, {x, sizeof x, CELLC_FLOAT32, 2, {-1, IN}}},
        {"INT64_MIN rows", CELLC_SHAPE, {x, sizeof x, CELLC_FLOAT32, 2, {INT64_MIN, IN}}},
        {"other columns", CELLC_SHAPE, {x, sizeof x, CELLC_FLOAT32, 2, {ROWS, IN - 1}}},
        {"2^62 rows", CELLC_SIZES, {x, sizeof x, CELLC_FLOAT32, 2, {1LL << 62, IN}}},
        {"2^57 rows", CELLC_SIZES, {x, INT64_MAX, CELLC_FLOAT32, 2, {1LL << 56, IN}}},
        {"INT64_MAX rows", CELLC_SIZES, {x, sizeof x, CELLC_FLOAT32, 2, {INT64_MAX, IN}}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[80];
        snprintf(what, sizeof what, "%s with %s", asks ? "measure" : "run", cases[i].what);
        if (asks) TRY(what, cases[i].code, measure(s, ATTACKED_INFER, cases[i].t, 1, e));
        else TRY(what, cases[i].code, run(cases[i].t, output(), e));
        untouched(what);
    }
}

static void buffers(void) {
    struct { const char *what; int code; void *data; int64_t nbytes; } ins[] = {
        {"no data", CELLC_BUFFER, NULL, sizeof x}, {"no bytes", CELLC_BUFFER, x, 0},
        {"a byte too few", CELLC_BUFFER, x, sizeof x - 1}, {"-1 bytes", CELLC_BUFFER, x, -1},
        {"INT64_MIN bytes", CELLC_BUFFER, x, INT64_MIN},
        {"an odd address", CELLC_BUFFER, (char *)x + 1, sizeof x},
        {"half an address", CELLC_BUFFER, (char *)x + 2, sizeof x},
        {"the output's memory", CELLC_BUFFER, y, sizeof y},
        {"memory across", CELLC_BUFFER, (char *)y + sizeof y - 4, sizeof x}};
    for (size_t i = 0; i < sizeof ins / sizeof *ins; i++) {
        cellc_tensor in = input(), out = output();
        in.data = ins[i].data, in.nbytes = ins[i].nbytes;
        char what[80];
        snprintf(what, sizeof what, "input with %s", ins[i].what);
        TRY(what, ins[i].code, run(in, out, e));
        if (i < 7) {
            out.data = i ? (char *)y + (i == 5 ? 1 : i == 6 ? 2 : 0) : NULL;
            out.nbytes = i == 0 ? (int64_t)sizeof y : i == 1 ? 0 : i == 2 ? (int64_t)sizeof y - 1
                       : i == 3 ? -1 : i == 4 ? INT64_MIN : (int64_t)sizeof y;
            snprintf(what, sizeof what, "output with %s", ins[i].what);
            TRY(what, ins[i].code, run(input(), out, e));
        }
        untouched(what);
    }
    cellc_tensor in = input(), out = output();
    TRY("run without inputs", CELLC_ARGUMENT, net->run(s, ATTACKED_INFER, NULL, 1, &out, 1, e));
    TRY("run without outputs", CELLC_ARGUMENT, net->run(s, ATTACKED_INFER, &in, 1, NULL, 1, e));
    TRY("run by NULL", CELLC_ARGUMENT, net->run(NULL, ATTACKED_INFER, &in, 1, &out, 1, e));
    TRY("run by another library's", CELLC_ARGUMENT,
        net->run(theirs, ATTACKED_INFER, &in, 1, &out, 1, e));
    out.dtype = CELLC_INT32;
    TRY("output of another type", CELLC_DTYPE, run(in, out, e));
    out = output();
    cellc_tensor cache = {x, sizeof x, CELLC_FLOAT32, 2, {ROWS, IN}};
    TRY("weight for an input that its entry changes", CELLC_OK, net->weight(s, "cache", &cache, e));
    TRY("run on a weight that changes", CELLC_BUFFER,
        net->run(s, ATTACKED_FILL, &cache, 1, &out, 1, e));
    out.data = cache.data, out.nbytes = cache.nbytes;
    TRY("result over a weight", CELLC_BUFFER, net->run(s, ATTACKED_FILL, &in, 1, &out, 1, e));
    untouched("a refused run");
    /* Weights that no call changes may be where nobody can write. */
    for (int mapped = 0; mapped < 2; mapped++) {
        cellc_options options = {mapped ? "good" : NULL, 0, 0};
        cellc_session *reads;
        cellc_tensor shared;
        if (net->create(net, &options, &reads, NULL)) bad++, printf("BAD no session\n");
        TRY("weight for a result", CELLC_OK, net->weight(reads, "dense.weight", &shared, e));
        shared.nbytes = sizeof y;
        in = input();
        TRY("result over a weight that is shared", CELLC_BUFFER,
            net->run(reads, ATTACKED_INFER, &in, 1, &shared, 1, e));
        shared.data = (char *)shared.data - sizeof y + 4;
        TRY("result across the beginning of a weight", CELLC_BUFFER,
            net->run(reads, ATTACKED_INFER, &in, 1, &shared, 1, e));
        shared.data = (char *)cache.data - sizeof y + 4;
        TRY("result across the beginning of a weight that changes", CELLC_BUFFER,
            net->run(s, ATTACKED_INFER, &in, 1, &shared, 1, e));
        net->destroy(reads);
    }
    in.shape[0] = 0, in.data = NULL, in.nbytes = 0;
    out = (cellc_tensor){NULL, 0, CELLC_ANY, 0, {0}};
    TRY("run on nothing", CELLC_OK, run(in, out, e));
}

/* DLPack's tensor, as its header has it. */
typedef struct {
    void *data;
    int32_t device, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t offset;
} dltensor;

static void dlpack(void) {
    int64_t shape[] = {ROWS, IN}, huge[] = {INT64_MAX, INT64_MAX}, wrong[] = {1, IN}, to[] = {ROWS, OUT};
    int64_t less[] = {ROWS, -IN};
    dltensor in = {x, 1, 0, 2, 2, 32, 1, shape, NULL, 0};
    dltensor out = {y, 1, 0, 2, 2, 32, 1, to, NULL, 0};
    struct { const char *what; int code; dltensor t; } cases[] = {
        {"a GPU's memory", CELLC_BUFFER, {x, 2, 0, 2, 2, 32, 1, shape, NULL, 0}},
        {"no device", CELLC_BUFFER, {x, 0, 0, 2, 2, 32, 1, shape, NULL, 0}},
        {"9 axes", CELLC_SHAPE, {x, 1, 0, 9, 2, 32, 1, shape, NULL, 0}},
        {"-1 axes", CELLC_SHAPE, {x, 1, 0, -1, 2, 32, 1, shape, NULL, 0}},
        {"no lanes", CELLC_DTYPE, {x, 1, 0, 2, 2, 32, 0, shape, NULL, 0}},
        {"no bits", CELLC_DTYPE, {x, 1, 0, 2, 2, 0, 1, shape, NULL, 0}},
        {"a kind 200", CELLC_DTYPE, {x, 1, 0, 2, 200, 32, 1, shape, NULL, 0}},
        {"no shape", CELLC_ARGUMENT, {x, 1, 0, 2, 2, 32, 1, NULL, NULL, 0}},
        {"a huge shape", CELLC_SHAPE, {x, 1, 0, 2, 2, 32, 1, huge, NULL, 0}},
        {"a negative size", CELLC_SHAPE, {x, 1, 0, 2, 2, 32, 1, less, NULL, 0}},
        {"four lanes", CELLC_DTYPE, {x, 1, 0, 2, 2, 32, 4, shape, NULL, 0}},
        {"a huge offset", CELLC_BUFFER, {x, 1, 0, 2, 2, 32, 1, shape, NULL, 1ull << 63}},
        {"an offset of -4", CELLC_BUFFER, {x, 1, 0, 2, 2, 32, 1, shape, NULL, -4ull}},
        {"odd strides", CELLC_SHAPE, {x, 1, 0, 2, 2, 32, 1, shape, wrong, 0}},
        {"an odd offset", CELLC_BUFFER, {x, 1, 0, 2, 2, 32, 1, shape, NULL, 3}},
        {"no data", CELLC_BUFFER, {NULL, 1, 0, 2, 2, 32, 1, shape, NULL, 0}}};
    const void *outs[] = {&out}, *none[] = {NULL}, *ins[] = {&in};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const void *given[] = {&cases[i].t};
        char what[80];
        snprintf(what, sizeof what, "DLPack with %s", cases[i].what);
        TRY(what, cases[i].code, net->run_dlpack(s, ATTACKED_INFER, given, 1, outs, 1, e));
    }
    TRY("DLPack without a tensor", CELLC_ARGUMENT,
        net->run_dlpack(s, ATTACKED_INFER, none, 1, outs, 1, e));
    TRY("DLPack without an output", CELLC_ARGUMENT,
        net->run_dlpack(s, ATTACKED_INFER, ins, 1, none, 1, e));
    TRY("DLPack by another library's", CELLC_ARGUMENT,
        net->run_dlpack(theirs, ATTACKED_INFER, ins, 1, outs, 1, e));
    untouched("DLPack");
    TRY("DLPack", CELLC_OK, net->run_dlpack(s, ATTACKED_INFER, ins, 1, outs, 1, e));
    int64_t nothing[] = {0, IN}, any[] = {77, 1}, empty[] = {0, OUT};
    in.shape = nothing, in.strides = any, in.data = NULL, out.shape = empty;
    TRY("DLPack of no rows", CELLC_OK, net->run_dlpack(s, ATTACKED_INFER, ins, 1, outs, 1, e));
}

static void weights(void) {
    cellc_tensor t = {0};
    TRY("weight of no name", CELLC_ARGUMENT, net->weight(s, NULL, &t, e));
    TRY("weight of an empty name", CELLC_ARGUMENT, net->weight(s, "", &t, e));
    TRY("weight of a long name", CELLC_ARGUMENT, net->weight(s, filler, &t, e));
    TRY("weight without a place", CELLC_ARGUMENT, net->weight(s, "cache", NULL, e));
    TRY("weight of NULL", CELLC_ARGUMENT, net->weight(NULL, "cache", &t, e));
    TRY("weight of another library's", CELLC_ARGUMENT, net->weight(theirs, "cache", &t, e));
}

static void saves(void) {
    struct stat before, after;
    const char *refused[] = {".", "missing/w", "good/w", "pipe", "/dev/null", "/dev/full", ""};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char what[60];
        snprintf(what, sizeof what, "save to '%s'", refused[i]);
        TRY(what, CELLC_FILE, net->save(s, refused[i], e));
    }
    if (stat("/dev/null", &after) || !S_ISCHR(after.st_mode) || stat("pipe", &after)
        || !S_ISFIFO(after.st_mode))
        bad++, printf("BAD save replaced a device\n");
    TRY("save to NULL", CELLC_ARGUMENT, net->save(s, NULL, e));
    TRY("save to a long name", CELLC_ARGUMENT, net->save(s, filler, e));
    TRY("save of NULL", CELLC_ARGUMENT, net->save(NULL, "w", e));
    TRY("save of another library's", CELLC_ARGUMENT, net->save(theirs, "w", e));
    /* A full disk leaves what was there, and nothing else. */
    struct rlimit limit, all;
    getrlimit(RLIMIT_FSIZE, &all);
    limit = all;
    limit.rlim_cur = 700;
    signal(SIGXFSZ, SIG_IGN);
    stat("kept", &before);
    fflush(stdout);
    setrlimit(RLIMIT_FSIZE, &limit);
    int full = net->save(s, "kept", &error), full2 = net->save(s, "new", NULL);
    setrlimit(RLIMIT_FSIZE, &all);
    judge("save to a full disk", full, CELLC_FILE);
    if (full2 != CELLC_FILE || stat("kept", &after) || after.st_ino != before.st_ino
        || after.st_size != before.st_size || access("new", F_OK) == 0)
        bad++, printf("BAD a full disk\n");
    /* Permissions and links stay. */
    TRY("save to a private file", CELLC_OK, net->save(s, "kept", e));
    if (stat("kept", &after) || (after.st_mode & 0777) != 0600) bad++, printf("BAD permissions\n");
    TRY("save to a link", CELLC_OK, net->save(s, "link", e));
    if (lstat("link", &after) || !S_ISLNK(after.st_mode)) bad++, printf("BAD the link is gone\n");
    TRY("create with what was saved", CELLC_OK, create_from("link", e));
    TRY("create with what was saved privately", CELLC_OK, create_from("kept", e));
}

/* Two threads on one session: right, or refused. */
static int wrong;

static void *hammer(void *seed) {
    unsigned state = (unsigned)(size_t)seed;
    for (int i = 0; i < 300; i++) {
        float own[ROWS * OUT];
        cellc_tensor in = input(), out = {own, sizeof own, CELLC_FLOAT32, 0, {0}};
        cellc_session *made = NULL;
        int code = 0, ran = 0;
        switch (rand_r(&state) % 4) {
        case 0: code = net->clone(s, &made, NULL); net->destroy(made); break;
        case 1: code = net->reset(s, NULL); break;
        case 2: code = net->measure(s, ATTACKED_INFER, &in, 1, &out, 1, NULL); break;
        default: code = net->run(s, ATTACKED_INFER, &in, 1, &out, 1, NULL), ran = 1;
        }
        if (code != CELLC_OK && code != CELLC_BUSY) __atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
        if (ran && code == CELLC_OK && memcmp(own, want, sizeof own))
            __atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void threads(void) {
    pthread_t both[2];
    for (size_t i = 0; i < 2; i++) pthread_create(&both[i], NULL, hammer, (void *)(i + 1));
    for (int i = 0; i < 2; i++) pthread_join(both[i], NULL);
    tried++;
    if (wrong) bad++, printf("BAD two threads: %d\n", wrong);
}

/* Executors that do other tasks than they should. */
enum { MANY = 4096 };

static void no_task(void *context, cellc_task task, void *arguments, int64_t count, int64_t grain) {
    (void)context, (void)task, (void)arguments, (void)count, (void)grain;
}

static void but_one(void *context, cellc_task task, void *arguments, int64_t count, int64_t grain) {
    (void)context, (void)grain;
    task(arguments, 0, count - 1);
}

static void twice(void *context, cellc_task task, void *arguments, int64_t count, int64_t grain) {
    (void)context, (void)grain;
    for (int i = 0; i < 2; i++) task(arguments, 0, count);
}

static void beyond(void *context, cellc_task task, void *arguments, int64_t count, int64_t grain) {
    (void)context, (void)grain;
    task(arguments, 0, count + 1000000);
    task(arguments, -1000000, count);
    task(arguments, count, 0);
    task(arguments, INT64_MIN, INT64_MAX);
}

static void backwards(void *context, cellc_task task, void *arguments, int64_t count,
                      int64_t grain) {
    (void)context, (void)grain;
    for (int64_t i = count; i-- > 0;) task(arguments, i, i + 1);
}

static void executors(void) {
    static float large[MANY * IN], results[MANY * OUT], expected[MANY * OUT];
    for (int i = 0; i < MANY * IN; i++) large[i] = x[i % (ROWS * IN)];
    cellc_tensor in = {large, sizeof large, CELLC_FLOAT32, 2, {MANY, IN}};
    cellc_tensor out = {expected, sizeof expected, CELLC_FLOAT32, 0, {0}};
    TRY("run on many rows", CELLC_OK, net->run(s, ATTACKED_INFER, &in, 1, &out, 1, e));
    out.data = results;
    struct { const char *what; cellc_executor executor; int code; } cases[] = {
        {"no task", no_task, CELLC_RUN}, {"all tasks but one", but_one, CELLC_RUN},
        {"tasks twice", twice, CELLC_RUN}, {"tasks that are not there", beyond, CELLC_RUN},
        {"tasks one by one", backwards, CELLC_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[80];
        snprintf(what, sizeof what, "an executor that does %s", cases[i].what);
        net->set_executor(net, cases[i].executor, NULL);
        TRY(what, cases[i].code, net->run(s, ATTACKED_INFER, &in, 1, &out, 1, e));
        memset(results, 7, sizeof results);
        TRY("the next run", cases[i].code, net->run(s, ATTACKED_INFER, &in, 1, &out, 1, e));
        if (cases[i].code)
            for (size_t k = 0; k < sizeof results; k++)
                if (((char *)results)[k] != 7) bad++, k = sizeof results, printf("BAD refused run\n");
        net->set_executor(net, NULL, NULL);
        TRY("a run without it", CELLC_OK, net->run(s, ATTACKED_INFER, &in, 1, &out, 1, e));
        if (memcmp(results, expected, sizeof results)) bad++, printf("BAD results after it\n");
    }
}

int main(int count, char **words) {
    memset(filler, 'w', sizeof filler - 1);
    for (int i = 0; i < ROWS * IN; i++) x[i] = (float)(i % 37 - 18) / 16;
    cellc_get_library_function get = (cellc_get_library_function)dlsym(
        dlopen("./libattacked.so", RTLD_NOW | RTLD_LOCAL), CELLC_GET_LIBRARY);
    cellc_get_library_function second = (cellc_get_library_function)dlsym(
        dlopen("./libother.so", RTLD_NOW | RTLD_LOCAL), CELLC_GET_LIBRARY);
    if (!get || !second) return puts(dlerror()), 2;
    int versions[] = {0, -1, 2, INT_MAX, INT_MIN};
    for (int i = 0; i < 5; i++) {
        const cellc_library *none = get(versions[i], &error);
        judge("another version", none ? 0 : error.code, CELLC_ABI_VERSION);
        if (get(versions[i], NULL)) bad++, printf("BAD a version\n");
    }
    net = get(CELLC_ABI, &error), other = second(CELLC_ABI, NULL);
    if (!net || !other || net == other) return 3;
    if (net->create(net, NULL, &s, NULL) || other->create(other, NULL, &theirs, NULL)) return 4;
    cellc_tensor in = input(), out = {want, sizeof want, CELLC_FLOAT32, 0, {0}};
    if (net->run(s, ATTACKED_INFER, &in, 1, &out, 1, NULL)) return 5;
    memset(y, 7, sizeof y);
    void (*rounds[])(void) = {creates, sessions, measures, buffers, dlpack, weights, saves, executors,
                              threads};
    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) rounds[i](), still_right();
    inputs(1), inputs(0), still_right();
    if (count > 1 && strcmp(words[1], "freed") == 0) { /* (reads what is freed) */
        cellc_session *gone;
        if (net->clone(s, &gone, NULL)) return 6;
        net->destroy(gone);
        TRY("reset of what is destroyed", CELLC_ARGUMENT, net->reset(gone, e));
        net->destroy(gone);
    }
    net->destroy(s);
    other->destroy(theirs);
    printf("%d tried, %d bad\n", tried, bad);
    return bad != 0;
}
