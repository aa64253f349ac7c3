// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See CallTrace.h.

#include "CallTrace.h"
#include "../../support/Error.h"
#include "shardonnx/runtime/EndsWith.h"
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <sys/stat.h>
#include <unistd.h>

namespace shardonnx::rt::cuda {
namespace {

constexpr const char *kVariable = "SHARDONNX_CALL_TRACE";

// Ends with the process: libraries call until then.
class TraceFolder {
public:
  static TraceFolder &get() {
    static auto *folder = new TraceFolder;
    return *folder;
  }
  bool active() const { return file != nullptr; }
  std::string path(const std::string &name) const {
    return concat(folder, "/", name);
  }
  // A line at once: the next call may be the last.
  void write(const std::string &line) {
    std::lock_guard<std::mutex> lock(mutex);
    std::fwrite(line.data(), 1, line.size(), file);
    std::fflush(file);
  }

private:
  TraceFolder() {
    const char *asked = std::getenv(kVariable);
    if (!asked || !*asked)
      return;
    folder = asked;
    ::mkdir(asked, 0777);
    std::string name = path(concat("calls-", ::getpid(), ".jsonl"));
    file = std::fopen(name.c_str(), "we");
    if (!file)
      fail(kVariable, ": '", name, "' cannot be made: ", std::strerror(errno));
  }
  std::string folder;
  std::FILE *file = nullptr;
  std::mutex mutex;
};

std::string hexOf(const void *bytes, size_t count) {
  std::string text = "\"";
  for (size_t i = 0; i < count; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x",
                  static_cast<const uint8_t *>(bytes)[i]);
    text += digits;
  }
  return text + "\"";
}

} // namespace

bool callsAreTraced() { return TraceFolder::get().active(); }

std::string quoteForJson(const char *text) {
  std::string quoted = "\"";
  for (; *text; ++text) {
    char c = *text;
    if (c == '"' || c == '\\')
      quoted += '\\';
    quoted += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return quoted + "\"";
}

std::string addressForJson(uint64_t address) {
  char text[32];
  std::snprintf(text, sizeof(text), "\"p%llx\"",
                static_cast<unsigned long long>(address));
  return text;
}

void traceCall(const char *library, const char *name,
               std::vector<CallValue> arguments, const std::string &result) {
  // …SetAttribute(object, attribute, bytes, count): cuBLASLt's
  constexpr uint64_t kMostBytes = 64;
  if (endsWith(name, "SetAttribute") && arguments.size() == 4 &&
      arguments[2].pointer && arguments[3].number <= kMostBytes)
    arguments[2].json = hexOf(arguments[2].pointer, arguments[3].number);
  std::string list;
  for (const CallValue &argument : arguments)
    list += (list.empty() ? "" : ", ") + argument.json;
  TraceFolder::get().write(
      concat("{\"library\": \"", library, "\", \"call\": \"", name,
             "\", \"arguments\": [", list, "], \"result\": ", result, "}\n"));
}

void traceNote(const char *library, const char *what, const std::string &json) {
  TraceFolder::get().write(concat("{\"library\": \"", library,
                                  "\", \"note\": \"", what,
                                  "\", \"says\": ", json, "}\n"));
}

void traceGraph(CUgraph graph, const std::string &name) {
  if (!callsAreTraced())
    return;
  void *library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  void *print = library ? ::dlsym(library, "cuGraphDebugDotPrint") : nullptr;
  std::string file;
  for (char c : name)
    file += c == ' ' ? '-' : c;
  std::string path =
      TraceFolder::get().path(concat(file, "-", ::getpid(), ".dot"));
  if (print)
    reinterpret_cast<decltype(&::cuGraphDebugDotPrint)>(print)(graph,
                                                               path.c_str(), 0);
}

} // namespace shardonnx::rt::cuda
