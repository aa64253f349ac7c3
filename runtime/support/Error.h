// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the runtime throws when the user, a file or the machine is at fault. It
// ends as one line `PROGRAM: error: …` on standard error; only `main` and the
// places that generated code calls into may not let it pass.

#ifndef SHARDONNX_RUNTIME_ERROR_H
#define SHARDONNX_RUNTIME_ERROR_H

#include <sstream>
#include <stdexcept>
#include <string>

namespace shardonnx::rt {

enum ExitCode : int {
  kExitDone = 0,
  kExitFailure = 1, // the input, the file or the machine is at fault
  kExitUsage = 2,   // the command line is
  // Between ranks and their launcher:
  kExitFollows = 3,     // another rank failed
  kExitSignalled = 128, // and a signal's number: stopped by that signal
};

class Error : public std::runtime_error {
public:
  Error(const std::string &message, ExitCode code)
      : std::runtime_error(message), code(code) {}
  ExitCode exitCode() const { return code; }

private:
  ExitCode code;
};

template <typename... Parts> std::string concat(const Parts &...parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return stream.str();
}

template <typename... Parts> [[noreturn]] void fail(const Parts &...parts) {
  throw Error(concat(parts...), kExitFailure);
}
template <typename... Parts>
[[noreturn]] void failUsage(const Parts &...parts) {
  throw Error(concat(parts...), kExitUsage);
}

/// What an exception tells the user, of whatever library it is: memory that is
/// not there has no message of its own.
std::string describe(const std::exception &exception);
/// An Error's own code, else that of a failure.
ExitCode exitCodeOf(const std::exception &exception);

/// What no one catches, in a thread or where nothing may be thrown, ends the
/// process with its line and code 1, not with an abort.
void endOnUncaught();

/// The name that messages begin with; set once, at the start of `run`.
void setProgramName(const char *argv0);
const std::string &programName();
/// One write, so that lines of several ranks never mix.
void printError(const std::string &message);
void printWarning(const std::string &message);
/// The text of errno, and how to mend what only a limit causes.
std::string systemError();

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_ERROR_H
