// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the two forms of an export share: the checkpoint's tensors, and a file
// that appears under its name only when it is whole.

#ifndef SHARDONNX_LIB_EXPORT_EXPORT_H
#define SHARDONNX_LIB_EXPORT_EXPORT_H

#include "../../runtime/checkpoint/Reader.h"
#include "shardonnx/Driver/Options.h"
#include "shardonnx/Support/TemporaryFile.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace shardonnx {

/// The values of a whole parameter, with its adapter's product added where it
/// has one.
std::vector<float> readParameter(rt::CheckpointReader &reader,
                                 const rt::CheckpointReader::Place &place);

/// The name that means standard output.
inline constexpr const char *kStandardOutput = "-";

/// Appears under its name, whatever was there, when it is finished; until then
/// it has a name that nobody else writes to, and does not outlive a failure.
class OutputFile {
public:
  explicit OutputFile(std::string path);
  void write(const void *bytes, int64_t count);
  void finish();
  int64_t size() const { return written; }
  /// Two files that belong together: another export to the same names comes
  /// before or after both.
  static void finishTogether(OutputFile &first, OutputFile &second);

private:
  void check();

  std::string path;
  std::unique_ptr<TemporaryFile> temporary; // null: standard output
  std::unique_ptr<llvm::raw_fd_ostream> stream;
  int64_t written = 0;
};

/// An f32 tensor of a .safetensors file; its values are read when they are
/// written.
struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::function<std::vector<float>()> read;
};
/// The bytes of a .safetensors file. `metadata` beside the format.
void writeTensors(
    OutputFile &file, const std::vector<StoredTensor> &tensors,
    const std::vector<std::pair<std::string, std::string>> &metadata = {});

/// Throws rt::Error unless `model` is the file that was compiled.
void checkModelHash(const rt::CheckpointReader &reader,
                    const std::string &model);

/// `model`: where the ONNX file that was compiled is now.
void writeSafeTensors(rt::CheckpointReader &reader, const std::string &model,
                      const std::string &output);
void writeOnnx(rt::CheckpointReader &reader, const std::string &model,
               const std::string &output);

/// A folder that PEFT's from_pretrained reads.
void writeAdapter(rt::CheckpointReader &reader, const std::string &folder);
/// Whether a parameter is half of an adapter.
bool isAdapter(const Manifest::Param &param);

} // namespace shardonnx

#endif // SHARDONNX_LIB_EXPORT_EXPORT_H
