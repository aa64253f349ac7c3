// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An event file for TensorBoard, of the numbers that the JSONL log has. Its
// format: records (TensorFlow's tfrecord: length, data, masked CRC32C of each)
// of protobuf messages (tensorflow/core/util/event.proto), of which three
// fields are written here by hand.

#ifndef SHARDONNX_RUNTIME_TENSORBOARD_H
#define SHARDONNX_RUNTIME_TENSORBOARD_H

#include "Log.h"
#include <string_view>

namespace shardonnx::rt {

class TensorBoard {
public:
  explicit TensorBoard(const std::string &folder); // "": none
  void write(const StepRecord &record);
  void close();

private:
  void writeEvent(const std::string &event);
  [[noreturn]] void failToWrite() const;

  std::string path;
  FileDescriptor fd;
};

/// Castagnoli's, as iSCSI and TensorFlow's records have it.
uint32_t crc32c(std::string_view bytes);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_TENSORBOARD_H
