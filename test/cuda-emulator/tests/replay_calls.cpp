// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// replay_calls TRACE.jsonl…: makes the calls of a trace (SHARDONNX_CALL_TRACE
// of a training executable) of the emulated libraries, and compares what comes
// back. A trace of a GPU that differs shows a fault of the emulator.
//
// What needs memory of the program's, or other ranks, is not called again:
// modules, kernels, copies to and from the host, NCCL.

#include <cstdlib>
#include <cublasLt.h>
#include <cuda.h>
#include <deque>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using Json = nlohmann::json;

/// What an address or a handle of the trace is here.
class Addresses {
public:
  void add(uint64_t there, uint64_t here, uint64_t bytes) {
    ranges[there] = {here, bytes ? bytes : 1};
  }
  /// It was given back: what is next at its address is something else.
  void remove(uint64_t there) { ranges.erase(there); }
  /// Nothing where no call has given it.
  std::optional<uint64_t> find(uint64_t there) const {
    auto at = ranges.upper_bound(there);
    if (at == ranges.begin())
      return std::nullopt;
    --at;
    uint64_t offset = there - at->first;
    if (offset >= at->second.bytes)
      return std::nullopt;
    return at->second.here + offset;
  }

private:
  struct Range {
    uint64_t here, bytes;
  };
  std::map<uint64_t, Range> ranges;
};

bool isAddress(const Json &value) {
  return value.is_string() && value.get_ref<const std::string &>()[0] == 'p';
}
uint64_t addressOf(const Json &value) {
  return std::strtoull(value.get_ref<const std::string &>().c_str() + 1,
                       nullptr, 16);
}

/// One call's arguments while it is made.
struct Call {
  Addresses &addresses;
  std::deque<std::vector<uint64_t>> memory; // that arguments point to
  std::vector<std::function<void(const std::string &)>> after;
  std::vector<std::string> differences;
  uint64_t allocated = 0; // of the trace's memory, bytes

  void *room(size_t bytes) {
    memory.emplace_back(bytes / 8 + 1);
    return memory.back().data();
  }
};

template <typename T> T scalarOf(Call &call, const Json &value) {
  if constexpr (std::is_pointer_v<T>)
    return reinterpret_cast<T>(
        isAddress(value) ? call.addresses.find(addressOf(value)).value_or(0)
                         : 0);
  else if (isAddress(value))
    return static_cast<T>(call.addresses.find(addressOf(value)).value_or(0));
  else
    return value.is_number() ? static_cast<T>(value.get<double>()) : T{};
}

// What a call has written, beside what it wrote in the trace.
template <typename Target>
void compareLater(Call &call, const Json &recorded, const Target *here) {
  call.after.push_back([&call, recorded, here](const std::string &name) {
    if (isAddress(recorded)) {
      call.addresses.add(addressOf(recorded), uint64_t(*here), call.allocated);
    } else if constexpr (std::is_integral_v<Target> || std::is_enum_v<Target>) {
      auto there = recorded.is_number() ? recorded.get<int64_t>() : 0;
      auto now = static_cast<int64_t>(*here);
      // How many algorithms there are is the library's; that there is one or
      // none is the problem's.
      if (name == "cublasLtMatmulAlgoGetHeuristic") {
        there = there > 0;
        now = now > 0;
      }
      if (there != now)
        call.differences.push_back("gives " + std::to_string(now) + ", not " +
                                   std::to_string(there));
    }
  });
}

template <typename T> T argumentOf(Call &call, const Json &value) {
  if constexpr (!std::is_pointer_v<T>) {
    return scalarOf<T>(call, value);
  } else {
    using Target = std::remove_cv_t<std::remove_pointer_t<T>>;
    if (value.is_null())
      return nullptr;
    if (value.is_object()) {
      if constexpr (std::is_scalar_v<Target>) {
        auto *place = static_cast<Target *>(call.room(sizeof(Target)));
        *place = scalarOf<Target>(call, value["value"]);
        compareLater(call, value["value"], place);
        return place;
      }
    }
    if (isAddress(value)) {
      // Else a structure of the program's: room for an array of them. Of this
      // one there are no handles, whatever was at its address before.
      constexpr size_t kRoom = 1 << 16;
      constexpr bool kNoHandle =
          std::is_same_v<Target, cublasLtMatmulHeuristicResult_t>;
      std::optional<uint64_t> here;
      if (!kNoHandle)
        here = call.addresses.find(addressOf(value));
      return here ? reinterpret_cast<T>(*here)
                  : reinterpret_cast<T>(call.room(kRoom));
    }
    // Text, or an attribute's bytes.
    constexpr size_t kMost = 256;
    const auto &text = value.get_ref<const std::string &>();
    auto *bytes = static_cast<char *>(call.room(kMost));
    if (std::is_same_v<Target, void>)
      for (size_t i = 0; 2 * i + 1 < text.size() && i < kMost; ++i)
        bytes[i] = static_cast<char>(
            std::strtoul(text.substr(2 * i, 2).c_str(), nullptr, 16));
    else
      text.copy(bytes, kMost - 1);
    return reinterpret_cast<T>(bytes);
  }
}

using Replayed = std::function<int64_t(Call &, const Json &)>;

template <typename Result, typename... A, size_t... I>
Replayed replayOf(Result (*function)(A...), std::index_sequence<I...>) {
  return [function](Call &call, const Json &arguments) {
    return static_cast<int64_t>(
        function(argumentOf<A>(call, arguments.at(I))...));
  };
}
template <typename Result, typename... A>
Replayed replayOf(Result (*function)(A...)) {
  return replayOf(function, std::index_sequence_for<A...>());
}

#define TEXT_OF(name) #name
#define NAME_OF(name) TEXT_OF(name)
#define REPLAY(name) {NAME_OF(name), replayOf(&name)}

const std::map<std::string, Replayed> &replayed() {
  static const std::map<std::string, Replayed> functions = {
      REPLAY(cuCtxGetStreamPriorityRange),
      REPLAY(cuCtxSetCurrent),
      REPLAY(cuCtxSynchronize),
      REPLAY(cuDeviceGet),
      REPLAY(cuDevicePrimaryCtxRelease),
      REPLAY(cuDevicePrimaryCtxRetain),
      REPLAY(cuEventCreate),
      REPLAY(cuEventDestroy),
      REPLAY(cuEventRecord),
      REPLAY(cuEventSynchronize),
      REPLAY(cuGraphDestroy),
      REPLAY(cuGraphExecDestroy),
      REPLAY(cuGraphInstantiate),
      REPLAY(cuGraphLaunch),
      REPLAY(cuGraphUpload),
      REPLAY(cuInit),
      REPLAY(cuMemAlloc),
      REPLAY(cuMemFree),
      REPLAY(cuMemFreeHost),
      REPLAY(cuMemHostAlloc),
      REPLAY(cuMemcpyDtoD),
      REPLAY(cuMemcpyDtoDAsync),
      REPLAY(cuMemsetD32Async),
      REPLAY(cuMemsetD8),
      REPLAY(cuMemsetD8Async),
      REPLAY(cuStreamBeginCapture),
      REPLAY(cuStreamCreateWithPriority),
      REPLAY(cuStreamDestroy),
      REPLAY(cuStreamEndCapture),
      REPLAY(cuStreamIsCapturing),
      REPLAY(cuStreamSynchronize),
      REPLAY(cuStreamWaitEvent),
      REPLAY(cuStreamWriteValue32),
      REPLAY(cublasLtCreate),
      REPLAY(cublasLtDestroy),
      REPLAY(cublasLtMatmulAlgoGetHeuristic),
      REPLAY(cublasLtMatmulDescCreate),
      REPLAY(cublasLtMatmulDescDestroy),
      REPLAY(cublasLtMatmulDescSetAttribute),
      REPLAY(cublasLtMatmulPreferenceCreate),
      REPLAY(cublasLtMatmulPreferenceDestroy),
      REPLAY(cublasLtMatmulPreferenceSetAttribute),
      REPLAY(cublasLtMatrixLayoutCreate),
      REPLAY(cublasLtMatrixLayoutDestroy),
      REPLAY(cublasLtMatrixLayoutSetAttribute)};
  return functions;
}

class Replay {
public:
  explicit Replay(std::string path) : path(std::move(path)) {}
  /// Returns the number of differences, -1 for a file that is none.
  int run();

private:
  void make(const std::string &name, const Json &line);
  void differs(const std::string &name, const std::string &what) {
    std::cerr << path << ':' << number << ": " << name << ' ' << what << '\n';
    ++different;
  }

  const std::string path;
  Addresses addresses;
  int number = 0, calls = 0, left = 0, different = 0;
};

void Replay::make(const std::string &name, const Json &line) {
  auto at = replayed().find(name);
  if (at == replayed().end()) {
    ++left;
    return;
  }
  ++calls;
  const Json &arguments = line.at("arguments");
  Call call{addresses, {}, {}, {}, 0};
  if (name.rfind("cuMemAlloc", 0) == 0 || name.rfind("cuMemHostAlloc", 0) == 0)
    call.allocated = arguments.at(1).get<uint64_t>();
  int64_t result = at->second(call, arguments);
  int64_t recorded = line.at("result").get<int64_t>();
  if (result != recorded)
    return differs(name, "returns " + std::to_string(result) + ", not " +
                             std::to_string(recorded));
  bool ends = name.find("Destroy") != std::string::npos ||
              name.rfind("cuMemFree", 0) == 0;
  if (ends && isAddress(arguments.at(0)))
    addresses.remove(addressOf(arguments.at(0)));
  if (result == 0)
    for (const auto &compare : call.after)
      compare(name);
  for (const std::string &what : call.differences)
    differs(name, what);
}

int Replay::run() {
  std::ifstream file(path);
  if (!file) {
    std::cerr << path << ": cannot be read\n";
    return -1;
  }
  for (std::string text; std::getline(file, text);) {
    ++number;
    try {
      Json line = Json::parse(text);
      if (line.contains("call"))
        make(line.at("call"), line);
    } catch (const Json::exception &) {
      std::cerr << path << ':' << number << ": is not a line of a trace\n";
      return -1;
    }
  }
  std::cout << path << ": " << calls << " calls made again, " << left
            << " left out, " << different << " differ\n";
  return different;
}

} // namespace

int main(int argc, char **argv) {
  int failed = argc < 2;
  for (int i = 1; i < argc; ++i)
    failed |= Replay(argv[i]).run() != 0;
  return failed;
}
