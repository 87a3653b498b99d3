/* Training LeNet in C++, without Python: the loss falls, and the weights are saved.

       cellc compile samples/lenet.py:LeNet5 --input 'x=float32[N,1,32,32]' --train train_step \
           --train-input 'x=float32[16,1,32,32]' --train-input 'y=int32[16]' \
           --shared out/libtrainer.so
       c++ -std=c++17 -Iout samples/c_library/train.cpp -Lout -ltrainer -Wl,-rpath,out -o out/train
       out/train out/trained.safetensors < images.raw
*/
#include <cstdio>
#include <thread>

#include "trainer.h"

#include "cellc.hpp"

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    constexpr std::size_t batch = 16, pixels = 32 * 32;
    std::vector<float> images(batch * pixels);
    if (std::fread(images.data(), sizeof(float), images.size(), stdin) != images.size()) return 2;
    std::vector<int32_t> labels(batch);
    for (std::size_t i = 0; i < batch; i++) labels[i] = static_cast<int32_t>(i % 10);

    try {
        cellc::Library trainer(trainer_library);
        cellc::Session session = trainer.session();
        cellc::Session untrained = session.clone();
        for (int step = 0; step < 10; step++) {
            auto loss = session.run<float>(
                "train", {cellc::view(images, {16, 1, 32, 32}), cellc::view(labels, {16})});
            std::printf("loss %.9g\n", static_cast<double>(loss.data[0]));
        }
        session.save(argv[1]);

        // A session for each thread; another number of images in each call.
        std::vector<float> before, after;
        std::thread other([&] {
            before = untrained.run<float>("infer", {cellc::view(images, {16, 1, 32, 32})}).data;
        });
        cellc::Session loaded = trainer.session(argv[1]);
        auto first = loaded.run<float>("infer", {cellc::view(images.data(), pixels, {1, 1, 32, 32})});
        after = loaded.run<float>("infer", {cellc::view(images, {16, 1, 32, 32})}).data;
        other.join();
        for (float score : first.data) std::printf("%.9g\n", static_cast<double>(score));
        std::printf("the scores have changed: %s\n", before == after ? "no" : "yes");
        loaded.run<float>("infer", {cellc::view(images.data(), pixels, {1, 32, 32})});
    } catch (const cellc::Error &error) {
        std::printf("error %d: %s\n", static_cast<int>(error.code), error.what());
    }
    return 0;
}
