// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the two forms of an export share: the checkpoint's tensors, and a file
// that appears under its name only when it is whole.

#ifndef SHARDONNX_LIB_EXPORT_EXPORT_H
#define SHARDONNX_LIB_EXPORT_EXPORT_H

#include "../../runtime/checkpoint/Reader.h"
#include "shardonnx/Driver/Options.h"

#include <fstream>
#include <string>
#include <vector>

namespace shardonnx {

/// The values of a whole parameter.
std::vector<float> readParameter(rt::CheckpointReader &reader,
                                 const rt::CheckpointReader::Place &place);

class OutputFile {
public:
  explicit OutputFile(std::string path);
  /// Removes what was not finished.
  ~OutputFile();
  void write(const void *bytes, int64_t count);
  void finish();
  int64_t size() const { return written; }

private:
  std::string path, temporary;
  std::ofstream stream;
  int64_t written = 0;
  bool finished = false;
};

void writeSafeTensors(rt::CheckpointReader &reader, const std::string &output);
/// `model`: where the ONNX file that was compiled is now.
void writeOnnx(rt::CheckpointReader &reader, const std::string &model,
               const std::string &output);

} // namespace shardonnx

#endif // SHARDONNX_LIB_EXPORT_EXPORT_H
