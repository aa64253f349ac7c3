// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is computed in the places that a mask does not select (SelectedRows.h)
// is left out, and so is its gradient: it is zero times the slope, which is no
// number where the slope is none. PyTorch computes nothing there:
//
//   loss(torch.log(w[mask]))          of sizes that are 0 where nothing is
//   ((y[mask] - target[mask]) ** 2)   of targets that are NaN where unknown
//   table[i[mask]]                    of indices that are -100 there

#ifndef SHARDONNX_LIB_IMPORT_UNSELECTEDPLACES_H
#define SHARDONNX_LIB_IMPORT_UNSELECTEDPLACES_H

#include "RowsOfMask.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace onnx {
class TensorProto;
}

namespace shardonnx {

/// What the graph's inputs and nodes do not say of themselves.
struct ValueOrigins {
  /// Inputs that are initializers: those that training changes, the others, and
  /// of these those with elements that are not finite.
  llvm::StringSet<> trained, constants, infinite;
  /// Whether a node's result has no gradient, whatever it is computed of.
  llvm::function_ref<bool(const ::onnx::NodeProto &)> detaches;
};

class UnselectedPlaces {
public:
  /// Of the graph as it is, whose rows the tracer has seen.
  UnselectedPlaces(const ::onnx::GraphProto &graph, const KnownTensors &known,
                   const RowTracer &tracer, const ValueOrigins &origins);

  /// The number that an input must be in places that are not selected, lest the
  /// node's gradient is none, or it reads what is not there. Nothing where it
  /// may be anything.
  std::optional<double> neededBy(const ::onnx::NodeProto &node,
                                 int input) const;

  /// Whether node picks rows out of what may be no number in other places,
  /// though PyTorch trains on.
  bool picksUnknown(const ::onnx::NodeProto &node) const;

private:
  void noteConstant(const std::string &name, const ::onnx::TensorProto &value);
  void followNumber(const ::onnx::NodeProto &node);
  void visit(const ::onnx::NodeProto &node, bool detached);
  bool makesUnknown(const ::onnx::NodeProto &node) const;
  bool isAny(const ::onnx::NodeProto &node,
             const llvm::StringSet<> &values) const;
  bool isFloatValue(llvm::StringRef name) const;
  bool isWholePower(const ::onnx::NodeProto &node) const;
  bool holdsPlaces(const ::onnx::NodeProto &node) const;

  const KnownTensors &known;
  const RowTracer &tracer;
  llvm::StringMap<double> numbers; // constants of one element
  /// Computed of the graph's inputs; of what training changes; maybe infinite
  /// or NaN in places from which PyTorch has no gradient.
  llvm::StringSet<> data, trained, unknown;
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_UNSELECTEDPLACES_H
