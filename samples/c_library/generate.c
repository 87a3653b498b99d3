/* A Llama-style decoder (llama.py), token by token, in C: the cache belongs to the session.

       cc -Iout samples/c_library/generate.c -Lout -lllama -Wl,-rpath,out -o out/generate
       out/generate 32 72 101 108 108 111
   prints 32 tokens after the prompt 72 101 108 108 111. */
#include <stdio.h>
#include <stdlib.h>

#include "llama.h"

static void check(int32_t code, const cellc_error *error) {
    if (code == CELLC_OK) return;
    fprintf(stderr, "error %d: %s\n", (int)code, error->text);
    exit(1);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int32_t prompt[1024], next, start = argc - 2;
    if (start > 1024) return 2;
    for (int i = 0; i < start; i++) prompt[i] = atoi(argv[i + 2]);

    cellc_error error;
    const cellc_library *net = llama_library(CELLC_ABI, &error);
    cellc_session *session;
    if (net == NULL) check(error.code, &error);
    check(net->create(net, NULL, &session, &error), &error);

    cellc_tensor tokens = {prompt, sizeof prompt, CELLC_INT32, 1, {start}};
    cellc_tensor out = {&next, sizeof next, CELLC_INT32, 0, {0}};
    check(net->run(session, LLAMA_PREFILL, &tokens, 1, &out, 1, &error), &error);
    for (int i = atoi(argv[1]); i > 0; i--, start++) {
        printf("%d\n", (int)next);
        int32_t token = next;
        cellc_tensor inputs[2] = {{&token, sizeof token, CELLC_INT32, 1, {1}},
                                  {&start, sizeof start, CELLC_INT32, 0, {0}}};
        check(net->run(session, LLAMA_DECODE, inputs, 2, &out, 1, &error), &error);
    }
    net->destroy(session);
    return 0;
}
