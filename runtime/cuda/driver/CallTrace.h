// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SHARDONNX_CALL_TRACE=DIR: every call of the driver, cuBLASLt and NCCL is a
// line of JSON in DIR/calls-PID.jsonl: arguments, what came back through them,
// status. The tables of functions have a recording function for each of the
// library's then, so that no caller knows of it. docs/cuda.md tells what a line
// holds; test/cuda-emulator replays them.

#ifndef SHARDONNX_RUNTIME_CUDA_CALLTRACE_H
#define SHARDONNX_RUNTIME_CUDA_CALLTRACE_H

#include "Driver.h"
#include <cstdio>
#include <string>
#include <type_traits>
#include <vector>

namespace shardonnx::rt::cuda {

/// Whether calls are recorded in this process.
bool callsAreTraced();

/// An argument as JSON, and what a buffer of bytes needs to be shown.
struct CallValue {
  std::string json;
  const void *pointer = nullptr;
  uint64_t number = 0;
};

void traceCall(const char *library, const char *name,
               std::vector<CallValue> arguments, const std::string &result);
/// What no call shows: `json` is an object.
void traceNote(const char *library, const char *what, const std::string &json);
/// A captured graph, as DIR/NAME-PID.dot, where the driver writes such.
void traceGraph(CUgraph graph, const std::string &name);

std::string quoteForJson(const char *text);
std::string addressForJson(uint64_t address);

template <typename T> CallValue valueOf(T value);

/// What a pointer to a value points to; a structure has no words for it.
template <typename T> std::string pointedTo(T *at) { return valueOf(*at).json; }

template <typename T> CallValue valueOf(T value) {
  if constexpr (std::is_same_v<T, const char *> || std::is_same_v<T, char *>) {
    return {value ? quoteForJson(value) : "null", value, 0};
  } else if constexpr (std::is_same_v<T, unsigned long long>) {
    // CUdeviceptr, which no size is; flags are small.
    constexpr unsigned long long kFlags = 4096;
    return {value < kFlags ? std::to_string(value) : addressForJson(value),
            nullptr, value};
  } else if constexpr (std::is_floating_point_v<T>) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(value));
    return {text, nullptr, 0};
  } else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
    auto number = static_cast<int64_t>(value);
    return {std::to_string(number), nullptr, static_cast<uint64_t>(number)};
  } else if constexpr (std::is_pointer_v<T>) {
    using Target = std::remove_pointer_t<T>;
    std::string address = addressForJson(reinterpret_cast<uint64_t>(value));
    const auto *at = static_cast<const void *>(value);
    constexpr bool kShown = std::is_arithmetic_v<Target> ||
                            std::is_enum_v<Target> || std::is_pointer_v<Target>;
    if constexpr (kShown)
      if (value)
        return {"{\"at\": " + address + ", \"value\": " + pointedTo(value) +
                    "}",
                at, 0};
    return {value ? address : "null", at, 0};
  } else {
    return {"\"…\"", nullptr, 0}; // by value: ncclUniqueId
  }
}

template <typename Name, typename Function> struct TracedCall;
template <typename Name, typename Result, typename... Arguments>
struct TracedCall<Name, Result (*)(Arguments...)> {
  static inline Result (*real)(Arguments...) = nullptr;
  static Result call(Arguments... arguments) {
    Result result = real(arguments...);
    traceCall(Name::library(), Name::text(), {valueOf(arguments)...},
              valueOf(result).json);
    return result;
  }
};

/// What a table gets for a library's function: the function, or one that
/// records its calls. Name has library() and text().
template <typename Name, typename Function> Function traced(Function real) {
  if (!real || !callsAreTraced())
    return real;
  TracedCall<Name, Function>::real = real;
  return &TracedCall<Name, Function>::call;
}

/// traced(), of a function of a table by its name.
#define SHX_TRACED(table, member, of, symbol)                                  \
  {                                                                            \
    struct Name {                                                              \
      static const char *library() { return of; }                              \
      static const char *text() { return symbol; }                             \
    };                                                                         \
    (table).member = traced<Name>((table).member);                             \
  }

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_CALLTRACE_H
