// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The graph that was compiled, with the checkpoint's weights. External data
// where the model had it, or where one file would pass protobuf's 2 GB.

#include "Export.h"
#include "GraphEdit.h"

#include "../../runtime/support/Error.h"
#include "../../runtime/support/Half.h"
#include "shardonnx/runtime/Sha256.h"

#include <onnx/onnx_pb.h>

#include <cstring>
#include <filesystem>
#include <memory>

namespace fs = std::filesystem;

namespace shardonnx {
namespace {

constexpr int64_t kLargestInline = (int64_t(2) << 30) - (int64_t(64) << 20);
constexpr int64_t kAlignment = 4096; // of tensors in external data
constexpr const char *kRemedy = "--model FILE says where the ONNX file that "
                                "was compiled is now, its external data beside "
                                "it";

/// `values` in an element type of ONNX's.
template <typename T> std::string narrow(const std::vector<float> &values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    if constexpr (std::is_same_v<T, double>)
      value = static_cast<double>(values[i]);
    else
      value = rt::fromFloat<T>(values[i]);
    std::memcpy(&bytes[i * sizeof(T)], &value, sizeof(T));
  }
  return bytes;
}

std::string bytesOf(const std::vector<float> &values, int elementType,
                    const std::string &name) {
  switch (elementType) {
  case ::onnx::TensorProto::FLOAT:
    return narrow<float>(values);
  case ::onnx::TensorProto::DOUBLE:
    return narrow<double>(values);
  case ::onnx::TensorProto::FLOAT16:
    return narrow<rt::Float16>(values);
  case ::onnx::TensorProto::BFLOAT16:
    return narrow<rt::BFloat16>(values);
  default:
    rt::fail("initializer '", name, "' is no tensor of floats");
  }
}

std::vector<float> transpose(const std::vector<float> &from, int64_t rows,
                             int64_t columns) {
  std::vector<float> to(from.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      to[static_cast<size_t>(c * rows + r)] =
          from[static_cast<size_t>(r * columns + c)];
  return to;
}

/// What the model's files have.
std::string storedBytes(const GraphInitializer &init,
                        const std::string &modelPath) {
  if (init.length == 0)
    return std::string(static_cast<size_t>(init.bytes), '\0');
  std::string folder = fs::path(modelPath).parent_path();
  rt::File file = init.file == fs::path(modelPath).filename().string()
                      ? rt::File(modelPath, kRemedy)
                      : rt::File::beneath(folder.empty() ? "." : folder,
                                          init.file, kRemedy);
  std::string bytes(static_cast<size_t>(init.bytes), '\0');
  file.read(bytes.data(), init.offset, init.bytes);
  return bytes;
}

template <typename T>
std::vector<float> widen(const std::string &bytes, float addend) {
  std::vector<float> values(bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, &bytes[i * sizeof(T)], sizeof(T));
    if constexpr (std::is_arithmetic_v<T>)
      values[i] = static_cast<float>(value) + addend;
    else
      values[i] = rt::toFloat(value) + addend;
  }
  return values;
}

class OnnxWriter {
public:
  OnnxWriter(rt::CheckpointReader &reader, const std::string &modelPath,
             const std::string &output)
      : reader(reader), modelPath(modelPath), output(output) {
    checkModelHash(reader, modelPath);
    graph = readGraph(modelPath);
  }

  void run() {
    checkParameters();
    int64_t total = 0;
    for (const GraphInitializer &init : graph.initializers)
      total += init.bytes;
    bool apart = graph.external || total > kLargestInline;
    if (apart && output == kStandardOutput && total > kLargestInline)
      rt::fail("the weights would pass the 2 GB of protobuf, and standard "
               "output is one file: give -o FILE.onnx");
    if (apart && output != kStandardOutput)
      data = std::make_unique<OutputFile>(output + ".data");
    auto *initializers = graph.model->mutable_graph()->mutable_initializer();
    for (const GraphInitializer &init : graph.initializers)
      write(init, *initializers);
    std::string bytes;
    if (!graph.model->SerializeToString(&bytes))
      rt::fail("'", output, "' would pass the 2 GB of protobuf");
    OutputFile file(output);
    file.write(bytes.data(), static_cast<int64_t>(bytes.size()));
    if (data)
      OutputFile::finishTogether(*data, file);
    else
      file.finish();
  }

private:
  /// Each of the checkpoint's parameters has its place in the graph.
  void checkParameters() const {
    for (const rt::Checkpoint::Unit &unit : reader.index().units)
      for (const Manifest::Param &param : unit.params) {
        auto found =
            std::find_if(graph.initializers.begin(), graph.initializers.end(),
                         [&](const GraphInitializer &i) {
                           return reader.find(i.names).param == &param;
                         });
        // What a framework wrote may have buffers that no graph has.
        if (found == graph.initializers.end() && param.trainable &&
            !isAdapter(param))
          rt::fail("'", modelPath, "' has no initializer for parameter '",
                   param.name, "' of the checkpoint");
      }
  }

  std::string newBytes(const GraphInitializer &init,
                       const rt::CheckpointReader::Place &place) {
    std::vector<float> values = readParameter(reader, place);
    std::vector<int64_t> shape = place.param->wholeShape();
    if (init.transposed && shape.size() == 2) {
      values = transpose(values, shape[0], shape[1]);
      std::swap(shape[0], shape[1]);
    }
    if (shape != init.shape)
      rt::fail("initializer '", init.name, "' of '", modelPath,
               "' has another shape than parameter '", place.param->name,
               "' of the checkpoint");
    return bytesOf(values, init.elementType, init.name);
  }

  void
  write(const GraphInitializer &init,
        ::google::protobuf::RepeatedPtrField<::onnx::TensorProto> &tensors) {
    auto found = std::find_if(tensors.begin(), tensors.end(),
                              [&](const ::onnx::TensorProto &tensor) {
                                return tensor.name() == init.name;
                              });
    rt::CheckpointReader::Place place = reader.find(init.names);
    if (found != tensors.end() && !place.param)
      return; // a small one that training leaves as it is
    std::string bytes =
        place.param ? newBytes(init, place) : storedBytes(init, modelPath);
    ::onnx::TensorProto &tensor =
        found != tensors.end() ? *found : *tensors.Add();
    tensor.Clear();
    tensor.set_name(init.name);
    tensor.set_data_type(init.elementType);
    for (int64_t size : init.shape)
      tensor.add_dims(size);
    if (data)
      writeExternal(tensor, bytes);
    else
      tensor.set_raw_data(std::move(bytes));
  }

  void writeExternal(::onnx::TensorProto &tensor, const std::string &bytes) {
    std::string padding(static_cast<size_t>(-data->size() & (kAlignment - 1)),
                        '\0');
    data->write(padding.data(), static_cast<int64_t>(padding.size()));
    auto add = [&](const char *key, const std::string &value) {
      ::onnx::StringStringEntryProto &entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    };
    tensor.set_data_location(::onnx::TensorProto::EXTERNAL);
    add("location", fs::path(output + ".data").filename());
    add("offset", std::to_string(data->size()));
    add("length", std::to_string(bytes.size()));
    data->write(bytes.data(), static_cast<int64_t>(bytes.size()));
  }

  rt::CheckpointReader &reader;
  const std::string modelPath, output;
  EditedGraph graph;
  std::unique_ptr<OutputFile> data;
};

} // namespace

void checkModelHash(const rt::CheckpointReader &reader,
                    const std::string &modelPath) {
  const std::string &expected = reader.index().modelSha256;
  if (expected.empty())
    return;
  rt::File file(modelPath, kRemedy);
  rt::Sha256 hash;
  std::vector<uint8_t> part(1 << 20);
  for (int64_t at = 0; at < file.size();) {
    int64_t n = std::min<int64_t>(int64_t(part.size()), file.size() - at);
    file.read(part.data(), at, n);
    hash.update(part.data(), static_cast<size_t>(n));
    at += n;
  }
  if (hash.hex() != expected)
    rt::fail("'", modelPath,
             "' is not the model of the checkpoint (its "
             "SHA-256 differs): ",
             kRemedy);
}

std::vector<float> readInitializer(const GraphInitializer &init,
                                   const std::string &modelPath) {
  if (!init.values.empty())
    return init.values;
  std::string bytes = storedBytes(init, modelPath);
  std::vector<float> values;
  switch (init.elementType) {
  case ::onnx::TensorProto::FLOAT:
    values = widen<float>(bytes, init.addend);
    break;
  case ::onnx::TensorProto::DOUBLE:
    values = widen<double>(bytes, init.addend);
    break;
  case ::onnx::TensorProto::FLOAT16:
    values = widen<rt::Float16>(bytes, init.addend);
    break;
  case ::onnx::TensorProto::BFLOAT16:
    values = widen<rt::BFloat16>(bytes, init.addend);
    break;
  default:
    rt::fail("initializer '", init.name, "' is no tensor of floats");
  }
  return init.transposed ? transpose(values, init.shape[0], init.shape[1])
                         : values;
}

void writeOnnx(rt::CheckpointReader &reader, const std::string &model,
               const std::string &output) {
  OnnxWriter(reader, model, output).run();
}

} // namespace shardonnx
