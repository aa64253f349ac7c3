// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nothing here allocates: there may be no memory left.

#include "shardonnx/Support/LastResort.h"

#include "shardonnx/Support/Diagnostics.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <unistd.h>

namespace shardonnx {
namespace {

const char *programName = "shardonnx";

/// A line of several parts, in one write as far as it fits.
class Line {
public:
  Line &operator<<(const char *part) {
    for (; *part && size < sizeof(text) - 1; ++part)
      text[size++] = static_cast<unsigned char>(*part) < 0x20 ? ' ' : *part;
    return *this;
  }
  void print() {
    text[size++] = '\n';
    ssize_t written = ::write(STDERR_FILENO, text, size);
    (void)written;
  }

private:
  char text[2048];
  size_t size = 0;
};

// One line, though several threads meet the end of memory at once.
[[noreturn]] void end(Line &line) {
  static std::atomic_flag ending = ATOMIC_FLAG_INIT;
  while (ending.test_and_set())
    ::pause();
  line.print();
  llvm::sys::RunInterruptHandlers(); // removes temporary files
  ::_exit(1);
}

[[noreturn]] void endWithoutMemory() {
  endWithError("there is not enough memory; give the process more (ulimit -v, "
               "a container's limit), or compile a smaller batch");
}

void onBadAlloc(void *, const char *, bool) { endWithoutMemory(); }

void onFatalError(void *, const char *reason, bool) {
  if (std::strstr(reason, "pthread_create"))
    endWithoutMemory(); // for the stack of a thread of LLVM's
  Line line;
  line << programName << ": error: " << reason;
  // Of a file whose writer did not look: the machine is at fault.
  if (!std::strstr(reason, "IO failure"))
    line << "; " << kFaultOfCompiler.data();
  end(line);
}

} // namespace

void installLastResort(const char *program) {
  programName = program;
  std::set_new_handler(endWithoutMemory);
  llvm::install_bad_alloc_error_handler(onBadAlloc);
  llvm::install_fatal_error_handler(onFatalError);
  // The stream ends a program whose messages could not be written, and be it
  // at exit, when all is done. Its destructor runs behind what is registered
  // after it was made.
  llvm::errs();
  std::atexit([] { llvm::errs().clear_error(); });
}

void endWithError(const char *message) {
  Line line;
  line << programName << ": error: " << message;
  end(line);
}

} // namespace shardonnx
