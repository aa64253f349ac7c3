// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files that people name as inputs. A named pipe would be waited for, perhaps
// for ever, and a device has no end: what is no regular file is an error.
// Without LLVM's headers, which the command line does not know; InputFile.h
// reads.

#ifndef SHARDONNX_SUPPORT_INPUTCHECK_H
#define SHARDONNX_SUPPORT_INPUTCHECK_H

#include <string>
#include <system_error>

namespace shardonnx {

/// Why the file cannot be an input, as far as that shows without opening it.
std::error_code checkInputFile(const std::string &path);

} // namespace shardonnx

#endif // SHARDONNX_SUPPORT_INPUTCHECK_H
