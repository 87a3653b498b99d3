/* The C interface of networks that cellc has compiled: the same for all, version 1.

   A library has a table of functions. Every function that can fail returns a code and, where
   `error` is not NULL, fills it in. A session belongs to one thread at a time; different sessions
   are independent. Nothing is written to outputs, weights or files where a call is refused.

       cellc_error error;
       const cellc_library *net = lenet_library(CELLC_ABI, &error);
       cellc_session *session;
       net->create(net, NULL, &session, &error);
       net->run(session, LENET_INFER, &x, 1, &y, 1, &error);
       net->destroy(session);
*/
#ifndef CELLC_ABI
#define CELLC_ABI 1

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CELLC_MAX_NDIM 8
#define CELLC_OPEN (-1) /* as a size: any; as an end of bounds: there is none */

enum cellc_code {
    CELLC_OK = 0, /* done */
    CELLC_ARGUMENT = 1, /* a null pointer, another library's session, an unknown entry or name, or a wrong number of arguments */
    CELLC_DTYPE = 2, /* a tensor of another element type */
    CELLC_SHAPE = 3, /* a tensor of another shape, or not contiguous */
    CELLC_BUFFER = 4, /* a buffer that is too short, missing, not aligned, or shared with another one */
    CELLC_SIZES = 5, /* sizes that no program serves */
    CELLC_MEMORY = 6, /* the system gives no memory */
    CELLC_PROCESSOR = 7, /* the library has no code for this processor */
    CELLC_WEIGHTS = 8, /* no weights, or those of another network */
    CELLC_FILE = 9, /* a file cannot be read or written */
    CELLC_RUN = 10, /* the network stopped with an error, as an index out of range, or the executor left out tasks */
    CELLC_BUSY = 11, /* another thread is in a call of this session */
    CELLC_ABI_VERSION = 12 /* the library has another version of this interface */
};

enum cellc_dtype {
    CELLC_ANY = 0, CELLC_BOOL = 1, CELLC_INT8 = 2, CELLC_INT16 = 3, CELLC_INT32 = 4,
    CELLC_INT64 = 5, CELLC_UINT8 = 6, CELLC_UINT16 = 7, CELLC_UINT32 = 8, CELLC_UINT64 = 9,
    CELLC_FLOAT16 = 10, CELLC_BFLOAT16 = 11, CELLC_FLOAT32 = 12, CELLC_FLOAT64 = 13,
    CELLC_COMPLEX64 = 14, CELLC_COMPLEX128 = 15
};

/* What went wrong. The text names entry, argument, what is expected and what was given. */
typedef struct cellc_error {
    int32_t code;
    int32_t length; /* bytes of the text */
    char text[1016];
} cellc_error;

/* Contiguous elements, row by row. Of an output, `data` and `nbytes` are the caller's; a call
   checks `dtype` unless it is CELLC_ANY, and sets it, `ndim` and `shape`. */
typedef struct cellc_tensor {
    void *data;
    int64_t nbytes; /* of the buffer; it may be longer than the tensor */
    int32_t dtype;
    int32_t ndim;
    int64_t shape[CELLC_MAX_NDIM];
} cellc_tensor;

/* A size that a call may choose. */
typedef struct cellc_size {
    const char *name;
    int64_t least, most; /* CELLC_OPEN as `most`: there is no end */
} cellc_size;

typedef struct cellc_argument {
    const char *name;
    const char *type;     /* "float32[N, 3]" */
    const int64_t *shape; /* CELLC_OPEN where a size is open, or follows from open ones */
    const int32_t *sizes; /* of each axis of an input: the number of its open size, or -1 */
    int32_t dtype;
    int32_t ndim;
    int32_t written; /* whether a call writes over this input */
    int32_t reserved;
} cellc_argument;

typedef struct cellc_entry {
    const char *name;
    const char *served; /* the sizes that are served and their relations, for people; or "" */
    const cellc_argument *inputs;
    const cellc_argument *outputs;
    const cellc_size *sizes;
    int32_t ninputs, noutputs, nsizes;
    int32_t updates; /* whether calls change the session's weights */
} cellc_entry;

typedef struct cellc_weight {
    const char *name;
    const int64_t *shape;
    int64_t nbytes;
    int32_t dtype;
    int32_t ndim;
    int32_t updated; /* whether some entry changes it */
    int32_t reserved;
} cellc_weight;

/* Zeros are the defaults. */
typedef struct cellc_options {
    const char *weights; /* a file of weights of this network, in the place of those inside */
    int32_t threads;     /* of all sessions of the library; 0: the processors of this process */
    int32_t reserved;
} cellc_options;

typedef struct cellc_session cellc_session;
typedef struct cellc_library cellc_library;

/* Does tasks first to last - 1. */
typedef void (*cellc_task)(void *arguments, int64_t first, int64_t last);
/* Does tasks 0 to count - 1, each once, by calls of `task` from any threads, each for `grain` tasks
   or more; returns when all are done. */
typedef void (*cellc_executor)(void *context, cellc_task task, void *arguments, int64_t count,
                               int64_t grain);

struct cellc_library {
    int32_t abi;
    int32_t nentries, nweights;
    int32_t embedded;    /* whether the weights are in the library */
    const char *name;
    const char *target;  /* "x86_64-avx2": the processor whose code runs */
    const char *version; /* of cellc */
    const char *hash;    /* names the weights that belong to the network */
    const cellc_entry *entries;
    const cellc_weight *weights;

    /* A session: the weights, and its own values of those that calls change. A file of weights is
       mapped read-only, so processes share it; nobody may change or shorten it meanwhile. */
    int32_t (*create)(const cellc_library *library, const cellc_options *options,
                      cellc_session **session, cellc_error *error);
    void (*destroy)(cellc_session *session); /* NULL: nothing */
    /* Gives all weights their first values again. */
    int32_t (*reset)(cellc_session *session, cellc_error *error);
    /* A session that shares what no call changes and begins with the values of this one. */
    int32_t (*clone)(cellc_session *session, cellc_session **made, cellc_error *error);
    /* The number of an entry, or -1. */
    int32_t (*find)(const cellc_library *library, const char *entry);
    /* Sets dtype, ndim, shape and nbytes of the outputs for these inputs, whose data are not
       read. */
    int32_t (*measure)(cellc_session *session, int32_t entry, const cellc_tensor *inputs,
                       int32_t ninputs, cellc_tensor *outputs, int32_t noutputs,
                       cellc_error *error);
    /* Runs an entry. After the first call of a size none allocates memory. */
    int32_t (*run)(cellc_session *session, int32_t entry, const cellc_tensor *inputs,
                   int32_t ninputs, cellc_tensor *outputs, int32_t noutputs, cellc_error *error);
    /* The same with pointers to DLPack's DLTensor, in the memory of the processor. */
    int32_t (*run_dlpack)(cellc_session *session, int32_t entry, const void *const *inputs,
                          int32_t ninputs, const void *const *outputs, int32_t noutputs,
                          cellc_error *error);
    /* A view of a weight as it is now, to be read between calls. */
    int32_t (*weight)(cellc_session *session, const char *name, cellc_tensor *tensor,
                      cellc_error *error);
    /* Writes the weights as they are now as a safetensors file, whole or not at all. A symbolic link
       stays one, permissions stay, and what is no regular file is refused. */
    int32_t (*save)(cellc_session *session, const char *path, cellc_error *error);
    int32_t (*set_threads)(const cellc_library *library, int32_t count, cellc_error *error);
    /* Lets `executor` do the parallel work of all sessions; NULL: the library's own threads. */
    void (*set_executor)(const cellc_library *library, cellc_executor executor, void *context);
};

/* The one name that every shared library has, for dlsym; NULL: another version.

   A library with code for several processors takes the best code that this processor runs, once,
   when it is first asked for; or, where the environment variable CELLC_TARGET is set, the code for
   the processor of that name: NULL with CELLC_PROCESSOR where it has none, or none that runs. */
typedef const cellc_library *(*cellc_get_library_function)(int32_t abi, cellc_error *error);
#define CELLC_GET_LIBRARY "cellc_get_library"

#ifdef __cplusplus
}
#endif
#endif
