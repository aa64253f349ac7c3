// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes a graph in which rows that masks select are followed (RowsOfMask.h) as
// one that is computed of all places of the masks.

#ifndef SHARDONNX_LIB_IMPORT_ROWWRITER_H
#define SHARDONNX_LIB_IMPORT_ROWWRITER_H

#include "NodeWriter.h"
#include "UnselectedPlaces.h"

#include <map>

namespace shardonnx {

/// A number of this type.
::onnx::TensorProto numberOf(int type, double value);
/// The order of axes that the data has, from that which has those of the mask,
/// along which indices count, in the mask's own.
std::vector<int64_t> backFrom(const std::vector<int64_t> &columns, size_t rank);

/// Writes the nodes anew.
class RowWriter {
public:
  RowWriter(::onnx::GraphProto &graph, int opset, const KnownTensors &known,
            const RowTracer &tracer, const UnselectedPlaces &others)
      : writer(graph, opset), known(known), tracer(tracer), others(others) {}

  void write(::onnx::NodeProto &node) {
    writer.standFor(node);
    if (isOp(node, "NonZero") && tracer.rowsOf(node.output(0)))
      giveAllPlaces(node);
    else if ((isOp(node, "ScatterND") || isOp(node, "ScatterElements")) &&
             tracer.putsBack(node))
      putBack(node);
    else if (isCrossEntropy(node) && tracer.rowsOf(node.input(0)))
      ignoreOthers(node);
    else if (node.input_size() > 0 && tracer.reducesRows(node))
      reduce(node);
    else if (!shapeRows(node))
      compute(node);
  }

  bool finish();

private:
  std::string reshape(const std::string &value, llvm::ArrayRef<int64_t> shape);
  std::string transpose(const std::string &value, llvm::ArrayRef<int64_t> perm);
  std::string validOf(const std::string &mask);
  void giveAllPlaces(const ::onnx::NodeProto &node);
  void compute(::onnx::NodeProto &node);
  bool spread(const ::onnx::NodeProto &node, const std::string &result);
  bool shapeRows(const ::onnx::NodeProto &node);
  void putBack(const ::onnx::NodeProto &node);
  std::string numberOfRows(const std::string &size);
  std::string selected(const std::string &rows, const Rows &of,
                       ::onnx::TensorProto otherwise);
  void select(const std::string &rows, const Rows &of, size_t rank,
              const ::onnx::TensorProto &otherwise, const std::string &result);
  std::string harmless(const ::onnx::NodeProto &node, int input);
  void ignoreOthers(const ::onnx::NodeProto &node);
  void reduce(const ::onnx::NodeProto &node);
  void replace(const ::onnx::NodeProto &node, const Rows &indices);
  std::string sumToData(std::string rows, const ::onnx::NodeProto &node,
                        const Rows &indices);
  std::string anyOf(const ::onnx::NodeProto &node, const Rows &indices);

  NodeWriter writer;
  const KnownTensors &known;
  const RowTracer &tracer;
  const UnselectedPlaces &others;
  std::map<std::vector<int64_t>, std::string>
      places;                         // indices, by the mask's shape
  llvm::StringMap<std::string> valid; // flat, by masks
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_ROWWRITER_H
