/* A language model (samples/llama.py), token by token, in C: the cache belongs to the session.

       cellc compile 'samples/llama.py:pretrained("MODEL_FOLDER")' \
           --entry prompt=choose --entry decode=choose --shared out/libllama.so \
           --input 'prompt.tokens=int32[1,T]' --input 'prompt.places=int32[S]' \
           --input 'decode.tokens=int32[1,1]' --input 'decode.places=int32[S]' \
           --input 'temperature=float32[]' --input 'top_k=int32[]' --input 'top_p=float32[]' \
           --input 'draw=float32[]'
       cc -Iout samples/c_library/generate.c -Lout -lllama -Wl,-rpath,out -o out/generate
       out/generate 32 0.7 1 15043 29892
   prints 32 tokens after the prompt 1 15043 29892, drawn at a temperature of 0.7 (0: the most
   probable ones). A model's tokenizer makes tokens of text. */
#include <stdio.h>
#include <stdlib.h>

#include "llama.h"

#define MOST 4096

static void check(int32_t code, const cellc_error *error) {
    if (code == CELLC_OK) return;
    fprintf(stderr, "error %d: %s\n", (int)code, error->text);
    exit(1);
}

/* A number in [0, 1): xorshift, by Marsaglia. */
static float drawn(void) {
    static uint32_t state = 2463534242u;
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return (float)(state >> 8) / 16777216.0f;
}

int main(int argc, char **argv) {
    int count = argc > 3 ? atoi(argv[1]) : 0, seen = argc - 3;
    if (count <= 0 || seen + count > MOST) return 2;
    static int32_t tokens[MOST], places[MOST];
    for (int i = 0; i < seen; i++) tokens[i] = atoi(argv[i + 3]);
    for (int i = 0; i < MOST; i++) places[i] = i;
    float temperature = (float)atof(argv[2]), top_p = 0.95f, draw;
    int32_t top_k = 40, next;

    cellc_error error;
    const cellc_library *net = llama_library(CELLC_ABI, &error);
    cellc_session *session;
    if (net == NULL) check(error.code, &error);
    check(net->create(net, NULL, &session, &error), &error);

    cellc_tensor inputs[6] = {
        {tokens, sizeof tokens, CELLC_INT32, 2, {1, seen}},
        {places, sizeof places, CELLC_INT32, 1, {seen}},
        {&temperature, sizeof temperature, CELLC_FLOAT32, 0, {0}},
        {&top_k, sizeof top_k, CELLC_INT32, 0, {0}},
        {&top_p, sizeof top_p, CELLC_FLOAT32, 0, {0}},
        {&draw, sizeof draw, CELLC_FLOAT32, 0, {0}},
    };
    cellc_tensor out = {&next, sizeof next, CELLC_INT32, 1, {1}};
    for (int i = 0; i < count; i++) {
        draw = drawn();
        check(net->run(session, i ? LLAMA_DECODE : LLAMA_PROMPT, inputs, 6, &out, 1, &error),
              &error);
        printf("%d\n", (int)next);
        tokens[0] = next;
        inputs[0].shape[1] = 1;
        inputs[1].shape[0] = ++seen;
    }
    net->destroy(session);
    return 0;
}
