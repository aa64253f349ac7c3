// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels that write their results over the parts of a tensor that they alone
// read, as rotary embedding does with the columns of query and key in a joined
// product. What else lies in that tensor (values) would keep all of it alive.
// And products that are added where the matrix lies that they are summed with,
// as an adapter's is.

#include "Placement.h"

#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

// The kernel that makes all that is joined and reads each element before it
// writes the same one, or null.
static nn::FusedOp kernelOf(nn::ConcatOp concat) {
  auto kernel = concat.getInputs().front().getDefiningOp<nn::FusedOp>();
  if (!kernel || kernel.getKind() != nn::FusedKind::rows ||
      llvm::any_of(kernel.getBody().front(),
                   [](Operation &op) { return nn::isReduction(&op); }))
    return nullptr;
  bool whole = llvm::all_of(concat.getInputs(), [&](Value part) {
    return part.getDefiningOp() == kernel && part.hasOneUse() &&
           nn::shapeOf(part) == kernel.getDomain();
  });
  return whole ? kernel : nullptr;
}

// The tensor that the kernel reads in the parts that the concat joins, and that
// nothing else reads; null if there is none.
static Value partsReadBy(nn::FusedOp kernel, nn::ConcatOp concat) {
  Value source;
  for (Value input : kernel.getInputs())
    if (auto slice = input.getDefiningOp<nn::SliceOp>();
        slice && slice.getOperand().getType() == concat.getType())
      source = slice.getOperand();
  if (!source)
    return nullptr;
  unsigned slices = 0;
  for (Operation *user : source.getUsers()) {
    auto slice = dyn_cast<nn::SliceOp>(user);
    if (!slice || !llvm::all_of(slice->getUsers(), [&](Operation *reader) {
          return reader == kernel;
        }))
      return nullptr;
    ++slices;
  }
  // Each part is read where it is written.
  int64_t offset = 0, axis = concat.getAxis();
  for (Value part : concat.getInputs()) {
    bool read = llvm::any_of(source.getUsers(), [&](Operation *user) {
      auto slice = cast<nn::SliceOp>(user);
      return slice.getSizes() == nn::shapeOf(part) &&
             slice.getOffsets()[axis] == offset;
    });
    if (!read)
      return nullptr;
    offset += nn::shapeOf(part)[axis];
  }
  return slices == concat.getInputs().size() ? source : Value();
}

// Do two slices of one tensor share no element?
static bool areDisjoint(nn::SliceOp a, nn::SliceOp b) {
  for (size_t axis = 0; axis != a.getSizes().size(); ++axis)
    if (a.getOffsets()[axis] + a.getSizes()[axis] <= b.getOffsets()[axis] ||
        b.getOffsets()[axis] + b.getSizes()[axis] <= a.getOffsets()[axis])
      return true;
  return false;
}

// Where `value` lies in what it is a view of, if no other view of that shares
// elements with it.
std::optional<Storage> Placement::storageOfPart(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto reshape = dyn_cast_or_null<nn::ReshapeOp>(op)) {
    if (!reshape.getOperand().hasOneUse())
      return std::nullopt;
    std::optional<Storage> storage = storageOfPart(reshape.getOperand());
    std::optional<Layout> layout;
    if (storage)
      layout = storage->layout.reshape(nn::shapeOf(value));
    if (!layout)
      return std::nullopt;
    return Storage{storage->root, *layout};
  }
  if (auto slice = dyn_cast_or_null<nn::SliceOp>(op)) {
    Value whole = slice.getOperand();
    for (Operation *user : whole.getUsers()) {
      auto other = dyn_cast<nn::SliceOp>(user);
      if (!other || (other != slice && !areDisjoint(slice, other)))
        return std::nullopt;
    }
    std::optional<Storage> storage = storageOfPart(whole);
    if (storage)
      storage->layout =
          storage->layout.slice(slice.getOffsets(), slice.getSizes());
    return storage;
  }
  if (!isa_and_nonnull<LibraryCallOpInterface, nn::FusedOp>(op) || isSum(value))
    return std::nullopt;
  if (auto product = dyn_cast<nn::MatmulEpilogueOp>(op))
    placeProduct(product);
  if (!find(value))
    placed[value] = allocate(value);
  const Storage &storage = *find(value);
  if (storage.root->space != exec::Space::private_)
    return std::nullopt;
  return storage;
}

std::optional<Storage> Placement::overwritten(nn::ConcatOp concat) {
  nn::FusedOp kernel = kernelOf(concat);
  Value source = kernel ? partsReadBy(kernel, concat) : Value();
  return source ? storageOfPart(source) : std::nullopt;
}

// Whether the value, or what it is a view of, has no other reader.
static bool isReadOnce(Value value) {
  if (!value.hasOneUse())
    return false;
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<nn::ReshapeOp>(op))
    return isReadOnce(op->getOperand(0));
  return true; // storageOfPart looks at the other parts
}

// The sum is where its matrix is, or this is written where the sum has to be;
// else it is copied there first.
void Placement::placeProduct(nn::MatmulEpilogueOp product) {
  if (!addsProducts || product.getEpilogue() != nn::Epilogue::bias)
    return;
  Value matrix = product.getSide(), sum = product.getResult();
  added.insert(sum);
  if (!isReadOnce(matrix))
    return;
  if (const Storage *there = find(sum)) {
    Storage storage = *there;
    place(matrix, storage, windows.lookup(sum), /*add=*/false);
  } else if (std::optional<Storage> storage = storageOfPart(matrix)) {
    placed[sum] = *storage;
  }
}
