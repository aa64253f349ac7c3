// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The graph of an ONNX file with its initializers taken out: what the importer
// makes of it, so that parameters which an exporter merged stand by themselves.

#ifndef SHARDONNX_LIB_EXPORT_GRAPHEDIT_H
#define SHARDONNX_LIB_EXPORT_GRAPHEDIT_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace onnx {
class ModelProto;
}

namespace shardonnx {

struct GraphInitializer {
  /// In the graph and in the program.
  std::string name, symbol;
  /// In the state dict, which has it under the first of them; several where
  /// modules share it.
  std::vector<std::string> names;
  std::vector<int64_t> shape;
  int elementType = 0; // of ONNX
  int64_t bytes = 0;
  /// Where its bytes are, in a file beside the model; empty: in the graph. A
  /// length of 0 stands for zeros that no file has.
  std::string file;
  int64_t length = 0;
  int64_t offset = 0;
  /// The bytes hold the transpose of the state dict's matrix.
  bool transposed = false;
  /// Of the module, trained or not.
  bool isParameter = false;
  float addend = 0; // the parameter is what the bytes say plus this
  /// Of a parameter whose bytes no file has as they are.
  std::vector<float> values;
};

struct EditedGraph {
  std::unique_ptr<::onnx::ModelProto> model; // without its large initializers
  std::vector<GraphInitializer> initializers;
  bool external = false; // the file had external data
};

/// Throws rt::Error.
EditedGraph readGraph(const std::string &path);

/// The values of one of the model's initializers, as the state dict has them.
std::vector<float> readInitializer(const GraphInitializer &init,
                                   const std::string &modelPath);

} // namespace shardonnx

#endif // SHARDONNX_LIB_EXPORT_GRAPHEDIT_H
