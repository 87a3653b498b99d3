/* An image through LeNet, in C.

       cellc compile samples/lenet.py:LeNet5 --input x=float32[1,1,32,32] --shared out/liblenet.so
       cc -Iout samples/c_library/infer.c -Lout -llenet -Wl,-rpath,out -o out/infer
       out/infer < image.raw
*/
#include <stdio.h>
#include <string.h>

#include "lenet.h"

static int failed(const cellc_error *error) {
    fprintf(stderr, "error %d: %s\n", (int)error->code, error->text);
    return 1;
}

int main(void) {
    cellc_error error;
    const cellc_library *net = lenet_library(CELLC_ABI, &error);
    if (net == NULL) return failed(&error);

    for (int i = 0; i < net->nentries; i++) {
        const cellc_entry *entry = &net->entries[i];
        printf("%s(", entry->name);
        for (int k = 0; k < entry->ninputs; k++)
            printf("%s%s: %s", k ? ", " : "", entry->inputs[k].name, entry->inputs[k].type);
        printf(")\n");
    }

    static float image[1 * 1 * 32 * 32];
    float scores[10];
    if (fread(image, sizeof image, 1, stdin) != 1) {
        fprintf(stderr, "an image of 32 x 32 floats is expected\n");
        return 1;
    }
    cellc_session *session;
    if (net->create(net, NULL, &session, &error)) return failed(&error);

    cellc_tensor x = {image, sizeof image, CELLC_FLOAT32, 4, {1, 1, 32, 32}};
    cellc_tensor y = {scores, sizeof scores, CELLC_FLOAT32, 0, {0}};
    if (net->run(session, LENET_INFER, &x, 1, &y, 1, &error)) return failed(&error);
    for (int i = 0; i < y.shape[1]; i++) printf("%.9g\n", (double)scores[i]);

    /* What is wrong is said: "For 'infer', 'x' must be ..., but got ...". */
    x.shape[0] = 2;
    if (net->run(session, LENET_INFER, &x, 1, &y, 1, &error)) printf("%s\n", error.text);
    net->destroy(session);
    return 0;
}
