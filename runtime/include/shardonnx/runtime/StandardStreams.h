// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Standard input, output and error, which whoever starts a program may have
// closed.

#ifndef SHARDONNX_RUNTIME_STANDARDSTREAMS_H
#define SHARDONNX_RUNTIME_STANDARDSTREAMS_H

#include <fcntl.h>

namespace shardonnx {

/// The next file to be opened would take the number of a stream that is closed,
/// and messages would go into it. What takes it here refuses reads of 0 and
/// writes to 1 and 2, as a closed stream does.
inline void occupyStandardStreams() {
  for (int stream = 0; stream <= 2; ++stream)
    if (::fcntl(stream, F_GETFD) == -1)
      (void)::open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
}

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_STANDARDSTREAMS_H
