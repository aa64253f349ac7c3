// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows the rows that masks select through a graph (SelectedRows.h).

#ifndef SHARDONNX_LIB_IMPORT_ROWSOFMASK_H
#define SHARDONNX_LIB_IMPORT_ROWSOFMASK_H

#include "SameValues.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <optional>
#include <string>
#include <vector>

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
} // namespace onnx

namespace shardonnx {

/// An axis that may count from the end, from the beginning.
inline int64_t normalized(int64_t axis, size_t rank) {
  return axis < 0 ? axis + int64_t(rank) : axis;
}

/// One axis of a value counts the rows that a mask selects.
struct Rows {
  std::string mask; // what NonZero reads
  int64_t axis = 0;
  /// Of indices as NonZero gives them: the mask's axes that they count along,
  /// in the order of the other axis (of none, if they are a vector). Of one it
  /// may be repeated along the other axis.
  std::optional<std::vector<int64_t>> columns = std::nullopt;
};

/// The number of rows that a mask selects, or a list with it.
struct RowCount {
  std::string mask;
  int64_t place = -1; // in the list, where that is known
  /// Whether it is the sum of the mask's flags, not a size of rows: a size of
  /// others, or a number that somebody wants.
  bool counted = false;
};

/// A mask that has one of rows for each of `each` elements of a row.
struct ElementsOfRows {
  std::string mask;
  int64_t each;
};

/// What a reduction of rows is not changed by; nothing where op is none that
/// may be of selected ones.
std::optional<double> neutralOf(llvm::StringRef op);

/// Whether node is a loss by labels.
bool isCrossEntropy(const ::onnx::NodeProto &node);

/// The masks, of values that depend on data, that NonZero reads.
std::vector<std::string> findMasks(const ::onnx::GraphProto &graph);

/// Whether node counts what a mask selects, as the shapes of `y[mask] = …` do:
/// the mask, else empty.
std::string maskCountedBy(const ::onnx::NodeProto &node,
                          const KnownTensors &known,
                          const llvm::StringSet<> &masks);

/// What depends on the rows that masks select, node by node.
class RowTracer {
public:
  RowTracer(KnownTensors &known, const SameValues &same,
            llvm::ArrayRef<std::string> masks)
      : known(known), same(same), masks(masks) {
    allMasks.insert_range(masks);
  }

  /// Nodes come behind what they read. False where rows are read by what is not
  /// computed of each row alone.
  bool visit(const ::onnx::NodeProto &node);

  const Rows *rowsOf(llvm::StringRef name) const {
    auto found = rows.find(name);
    return found == rows.end() ? nullptr : &found->second;
  }
  const RowCount *countAt(llvm::StringRef name) const {
    auto found = sizes.find(name);
    return found == sizes.end() ? nullptr : &found->second;
  }
  /// Whether it has a size of rows.
  bool isNumberOfRows(llvm::StringRef name) const {
    const RowCount *count = countAt(name);
    return count && !count->counted;
  }
  /// Of a mask that is none of the graph's.
  const ElementsOfRows *elementsOfRows(llvm::StringRef mask) const {
    auto found = elements.find(mask);
    return found == elements.end() ? nullptr : &found->second;
  }
  /// Whether node reads there the size of rows as a number, not as a size.
  bool readsNumber(const ::onnx::NodeProto &node, int input) const;
  /// Whether node, a ScatterND or ScatterElements, puts rows back.
  bool putsBack(const ::onnx::NodeProto &node) const;
  /// Whether node adds rows to what indices of their own say.
  bool addsRows(const ::onnx::NodeProto &node) const;
  /// Whether node reduces rows to one: a cross-entropy, a sum, a mean.
  bool reducesRows(const ::onnx::NodeProto &node) const;
  /// Whether node, a ScatterND without a reduction, adds to what rows are put
  /// back to: what it adds, else nothing.
  std::optional<std::string> addedBy(const ::onnx::NodeProto &node) const;

private:
  bool visitRows(const ::onnx::NodeProto &node);
  int64_t countOf(llvm::StringRef mask) const;
  bool set(llvm::StringRef output, Rows value);
  bool visitElementwise(const ::onnx::NodeProto &node);
  bool visitReshape(const ::onnx::NodeProto &node);
  bool visitExpand(const ::onnx::NodeProto &node);
  bool visitSlice(const ::onnx::NodeProto &node);
  bool visitSplit(const ::onnx::NodeProto &node);
  bool visitConcat(const ::onnx::NodeProto &node);
  bool visitGather(const ::onnx::NodeProto &node);
  bool visitGatherND(const ::onnx::NodeProto &node);
  bool visitGatherElements(const ::onnx::NodeProto &node);
  bool visitProduct(const ::onnx::NodeProto &node);
  bool crossEntropyOfRows(const ::onnx::NodeProto &node) const;
  bool visitCrossEntropy(const ::onnx::NodeProto &node);
  bool visitOneHot(const ::onnx::NodeProto &node);
  bool visitAlongAxis(const ::onnx::NodeProto &node);
  bool visitReduction(const ::onnx::NodeProto &node);
  bool isMaskOf(const Rows &indices, llvm::StringRef data,
                std::optional<int64_t> along = std::nullopt) const;
  bool writesWithin(const ::onnx::NodeProto &node) const;
  bool visitScatter(const ::onnx::NodeProto &node);
  bool beginsWithOwnNumber(llvm::StringRef indices) const;
  bool areIndices(llvm::StringRef name, size_t columns) const;
  bool isRead(const ::onnx::NodeProto &node, int input) const;
  bool onlyReads(const ::onnx::NodeProto &node, int input) const;
  bool choosesOnce(const Rows &indices) const;
  std::optional<int64_t> axisBefore(const ::onnx::NodeProto &node, int input,
                                    int64_t axis) const;

  std::string maskOfElements(const Rows &whole, llvm::ArrayRef<int64_t> rest);
  void visitShape(const ::onnx::NodeProto &node);
  std::optional<int64_t> placeAfter(const ::onnx::NodeProto &node, int input,
                                    int64_t place) const;
  bool makesRows(const ::onnx::NodeProto &node, int input,
                 const RowCount &count);
  std::optional<bool> visitSizes(const ::onnx::NodeProto &node);
  bool isNumber(llvm::StringRef name) const;

  KnownTensors &known;
  const SameValues &same;
  llvm::ArrayRef<std::string> masks;
  llvm::StringSet<> allMasks; // the same
  llvm::StringMap<Rows> rows;
  llvm::StringMap<RowCount> sizes;
  llvm::StringMap<ElementsOfRows> elements;
  llvm::StringSet<> amongRows; // indices that count selected rows
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_ROWSOFMASK_H
