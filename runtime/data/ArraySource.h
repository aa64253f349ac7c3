// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Array files: .npz and .safetensors, one array for each graph input, samples
// along axis 0.

#ifndef SHARDONNX_RUNTIME_ARRAYSOURCE_H
#define SHARDONNX_RUNTIME_ARRAYSOURCE_H

#include "../support/File.h"
#include "DataSource.h"
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shardonnx::rt {

enum class ElementType {
  U8,
  I8,
  U16,
  I16,
  U32,
  I32,
  U64,
  I64,
  F16,
  BF16,
  F32,
  F64
};

struct Array {
  ElementType type = ElementType::F32;
  std::vector<int64_t> shape;
  std::shared_ptr<File> file; // null: the bytes are in `held`
  int64_t offset = 0;
  std::vector<uint8_t> held;
  std::string unreadable; // why, and what mends it: an error if it is wanted

  int64_t bytes() const;
};

using Arrays = std::map<std::string, Array>;

Arrays readNpz(const std::string &path);
Arrays readSafeTensors(const std::string &path,
                       std::map<std::string, std::string> *metadata = nullptr);
Arrays readSafeTensors(std::shared_ptr<File> file,
                       std::map<std::string, std::string> *metadata = nullptr);

int64_t elementBytes(ElementType type);
const char *elementName(ElementType type);
bool isFloat(ElementType type);
std::string shapeText(const std::vector<int64_t> &shape); // [2, 3]
/// The product of a shape from a file; negative when it overflows.
int64_t checkedElements(const std::vector<int64_t> &shape);

class ArraySource : public DataSource {
public:
  /// Whether labels are shifted is found out where neither the command line nor
  /// the file (`unshifted`: each is the token at its own position) says it.
  ArraySource(Arrays arrays, const Manifest &manifest, std::string path,
              std::optional<bool> shiftLabels = std::nullopt,
              bool unshifted = false);
  int64_t samples() const override { return count; }
  void read(int64_t sample, size_t input, void *row) override;
  int64_t countLabels(int64_t sample) override;
  int64_t checkedBytes(int64_t sample) const override;
  int64_t memoryBytes() const override;
  std::vector<std::string> unusedArrays() const override;
  std::string describeLabels() const override;

private:
  const Array *bind(const Manifest::Input &input);
  void checkReadable(const std::string &name, const Array &array) const;
  const uint8_t *load(const Array &array, int64_t sample, int64_t elements);
  void checkFolded(const Manifest::Input &input, const Array &array,
                   int64_t sample, const uint8_t *from);
  void readDocuments(const Manifest::Input &input, int64_t sample, void *to);
  void convertIntegers(const Manifest::Input &input, const Array &array,
                       int64_t sample, void *row);
  [[noreturn]] void failAt(const Manifest::Input &input, int64_t sample,
                           size_t element, const std::string &value,
                           const std::string &why) const;
  void decideShift(std::optional<bool> asked);
  bool repeatTokens();
  void findPositions();
  std::vector<int64_t> begins(const Array &ids, int64_t sample, int64_t n);
  std::vector<int64_t> integers(const Array &array, int64_t sample, int64_t n);
  std::vector<int64_t> labelsOf(const Manifest::Input &input,
                                const Array &array, int64_t sample);

  Arrays arrays;
  const Manifest &manifest;
  std::string path;
  int64_t count = -1;
  std::vector<const Array *> bound; // per input; null: the default is made
  const Manifest::Input *labels = nullptr; // whose labels are counted
  const Array *labelArray = nullptr;
  /// The tokens to each of which there is a label; null: there are none such.
  const Manifest::Input *tokens = nullptr;
  const Array *tokenArray = nullptr;
  bool shiftsLabels = false; // to the position before
  bool saidUnshifted;        // by the file, and it is what counts
  /// By which documents are told apart; null: by their separator.
  const Array *positions = nullptr;
  std::vector<uint8_t> row;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_ARRAYSOURCE_H
