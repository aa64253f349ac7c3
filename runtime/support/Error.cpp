// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How errors and warnings look to the user.

#include "Error.h"
#include "shardonnx/runtime/Printable.h"
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>
#include <unistd.h>

namespace shardonnx::rt {
namespace {

std::string &storedName() {
  static std::string name = "train";
  return name;
}

void printLine(const char *severity, const std::string &message) {
  // Whatever the message quotes, it stays one line.
  std::string line =
      printable(programName() + ": " + severity + ": " + message) + '\n';
  size_t done = 0;
  while (done < line.size()) {
    ssize_t n = ::write(STDERR_FILENO, line.data() + done, line.size() - done);
    if (n <= 0)
      return;
    done += static_cast<size_t>(n);
  }
}

[[noreturn]] void endWithCurrent() {
  if (std::exception_ptr current = std::current_exception()) {
    try {
      std::rethrow_exception(current);
    } catch (const std::exception &e) {
      printError(describe(e));
    } catch (...) {
      printError("something was thrown that is no exception; this is a fault "
                 "of the program: please report it");
    }
    ::_exit(kExitFailure);
  }
  std::abort();
}

} // namespace

std::string describe(const std::exception &exception) {
  if (dynamic_cast<const std::bad_alloc *>(&exception))
    return "there is not enough memory";
  const auto *system = dynamic_cast<const std::system_error *>(&exception);
  if (system && system->code() == std::errc::resource_unavailable_try_again)
    return "there is not enough memory for another thread; raise the limit "
           "(ulimit -v, ulimit -u, a container's)";
  // The JSON library's messages begin with a word of its own in brackets.
  std::string what = exception.what();
  if (what.rfind("[json.exception.", 0) == 0)
    what.erase(0, what.find("] ") + 2);
  return what;
}

ExitCode exitCodeOf(const std::exception &exception) {
  const auto *error = dynamic_cast<const Error *>(&exception);
  return error ? error->exitCode() : kExitFailure;
}

void endOnUncaught() { std::set_terminate(endWithCurrent); }

void setProgramName(const char *argv0) {
  const char *slash = std::strrchr(argv0, '/');
  storedName() = slash ? slash + 1 : argv0;
}
const std::string &programName() { return storedName(); }
void printError(const std::string &message) { printLine("error", message); }
void printWarning(const std::string &message) { printLine("warning", message); }
std::string systemError() {
  std::string text = std::strerror(errno);
  return errno == EMFILE ? text + " (raise the limit: ulimit -n)" : text;
}

} // namespace shardonnx::rt
