// Networks that cellc has compiled, for C++17: cellc.h with ownership, exceptions and vectors.
//
//     #include "lenet.h"
//     #include "cellc.hpp"
//
//     cellc::Library lenet(lenet_library);
//     cellc::Session session = lenet.session();
//     std::vector<float> image(32 * 32);
//     cellc::Array<float> scores = session.run<float>("infer", {cellc::view(image, {1, 1, 32, 32})});
#ifndef CELLC_HPP
#define CELLC_HPP

#ifndef CELLC_ABI
#error "include the header of a network first"
#endif

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cellc {

// A code and its text.
class Error : public std::runtime_error {
public:
    explicit Error(const cellc_error &error) : std::runtime_error(error.text), code(error.code) {}
    const int32_t code;
};

namespace detail {

template <typename F> void check(F &&call) {
    cellc_error error;
    if (call(&error) != CELLC_OK) throw Error(error);
}

template <typename T> struct dtype;
template <> struct dtype<bool> { static constexpr int32_t value = CELLC_BOOL; };
template <> struct dtype<int8_t> { static constexpr int32_t value = CELLC_INT8; };
template <> struct dtype<int16_t> { static constexpr int32_t value = CELLC_INT16; };
template <> struct dtype<int32_t> { static constexpr int32_t value = CELLC_INT32; };
template <> struct dtype<int64_t> { static constexpr int32_t value = CELLC_INT64; };
template <> struct dtype<uint8_t> { static constexpr int32_t value = CELLC_UINT8; };
template <> struct dtype<uint16_t> { static constexpr int32_t value = CELLC_UINT16; };
template <> struct dtype<uint32_t> { static constexpr int32_t value = CELLC_UINT32; };
template <> struct dtype<uint64_t> { static constexpr int32_t value = CELLC_UINT64; };
template <> struct dtype<float> { static constexpr int32_t value = CELLC_FLOAT32; };
template <> struct dtype<double> { static constexpr int32_t value = CELLC_FLOAT64; };

} // namespace detail

// The caller's elements as a tensor. The memory must outlive the call.
template <typename T>
cellc_tensor view(T *data, std::size_t count, std::initializer_list<int64_t> shape) {
    using Element = typename std::remove_const<T>::type;
    cellc_tensor tensor{};
    if (shape.size() > CELLC_MAX_NDIM) throw std::invalid_argument("too many axes");
    tensor.data = const_cast<Element *>(data);
    tensor.nbytes = static_cast<int64_t>(count * sizeof(T));
    tensor.dtype = detail::dtype<Element>::value;
    for (int64_t size : shape) tensor.shape[tensor.ndim++] = size;
    return tensor;
}

template <typename T>
cellc_tensor view(const std::vector<T> &data, std::initializer_list<int64_t> shape) {
    return view(data.data(), data.size(), shape);
}

// A result.
template <typename T> struct Array {
    std::vector<T> data;
    std::vector<int64_t> shape;
};

// Weights and state; moved, not copied: `clone` makes another one.
class Session {
public:
    Session(Session &&other) noexcept
        : library_(other.library_), session_(std::exchange(other.session_, nullptr)) {}
    Session &operator=(Session &&other) noexcept {
        std::swap(library_, other.library_);
        std::swap(session_, other.session_);
        return *this;
    }
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;
    ~Session() { library_->destroy(session_); }

    // Runs an entry on buffers.
    void run(const std::string &entry, const std::vector<cellc_tensor> &inputs,
             std::vector<cellc_tensor> &outputs) {
        detail::check([&](cellc_error *error) {
            return library_->run(session_, number(entry), inputs.data(), count(inputs),
                                 outputs.data(), count(outputs), error);
        });
    }

    // The result of an entry that has one.
    template <typename T>
    Array<T> run(const std::string &entry, const std::vector<cellc_tensor> &inputs) {
        std::vector<cellc_tensor> outputs(1);
        int32_t which = number(entry);
        detail::check([&](cellc_error *error) {
            return library_->measure(session_, which, inputs.data(), count(inputs),
                                     outputs.data(), 1, error);
        });
        cellc_tensor &out = outputs[0];
        Array<T> result{std::vector<T>(static_cast<std::size_t>(out.nbytes) / sizeof(T)),
                        std::vector<int64_t>(out.shape, out.shape + out.ndim)};
        out.data = result.data.data();
        out.dtype = detail::dtype<T>::value;
        run(entry, inputs, outputs);
        return result;
    }

    void reset() {
        detail::check([&](cellc_error *error) { return library_->reset(session_, error); });
    }

    Session clone() const {
        cellc_session *made = nullptr;
        detail::check([&](cellc_error *error) { return library_->clone(session_, &made, error); });
        return Session(library_, made);
    }

    void save(const std::string &path) const {
        detail::check(
            [&](cellc_error *error) { return library_->save(session_, path.c_str(), error); });
    }

    // A view of a weight, to be read between calls.
    cellc_tensor weight(const std::string &name) const {
        cellc_tensor tensor;
        detail::check([&](cellc_error *error) {
            return library_->weight(session_, name.c_str(), &tensor, error);
        });
        return tensor;
    }

private:
    friend class Library;
    Session(const cellc_library *library, cellc_session *session)
        : library_(library), session_(session) {}
    static int32_t count(const std::vector<cellc_tensor> &tensors) {
        return static_cast<int32_t>(tensors.size());
    }
    int32_t number(const std::string &entry) const {
        int32_t found = library_->find(library_, entry.c_str());
        if (found < 0) throw std::out_of_range("there is no entry '" + entry + "'");
        return found;
    }
    const cellc_library *library_;
    cellc_session *session_;
};

class Library {
public:
    // `get` is the function of a network (lenet_library), or cellc_get_library by dlsym.
    explicit Library(cellc_get_library_function get) {
        cellc_error error;
        library_ = get(CELLC_ABI, &error);
        if (library_ == nullptr) throw Error(error);
    }

    // A session; `weights` is a file in the place of the weights inside.
    Session session(const std::string &weights = "", int32_t threads = 0) const {
        cellc_options options{};
        options.weights = weights.empty() ? nullptr : weights.c_str();
        options.threads = threads;
        cellc_session *made = nullptr;
        detail::check([&](cellc_error *error) {
            return library_->create(library_, &options, &made, error);
        });
        return Session(library_, made);
    }

    const cellc_library *operator->() const { return library_; }

private:
    const cellc_library *library_;
};

} // namespace cellc
#endif
