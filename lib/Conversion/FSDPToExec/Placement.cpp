// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which values are written where they are needed.

#include "Placement.h"

#include "shardonnx/Dialect/Exec/Transforms/Lifetimes.h"
#include "shardonnx/Dialect/NN/IR/JoinedParameters.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

ParameterPlaces shardonnx::placeParameters(ModuleOp module) {
  ParameterPlaces places;
  for (auto unit : module.getOps<fsdp::UnitOp>()) {
    auto add = [&](ArrayAttr intervals, int64_t base, bool frozen) {
      for (auto interval : intervals.getAsRange<fsdp::IntervalAttr>())
        places[interval.getParameter().getAttr()] = {
            unit, base + interval.getOffset(), frozen};
    };
    add(unit.getIntervals(), 0, false);
    add(unit.getFrozenIntervals(), unit.getLength(), true);
  }
  return places;
}

// Can the op write its result in this layout?
static bool canWrite(Operation *op, unsigned result, const Layout &layout) {
  if (layout.repeats())
    return false;
  if (auto call = dyn_cast<LibraryCallOpInterface>(op))
    return call.canWrite(result, layout);
  // A kernel is generated for the layout, and so is a copy.
  return isa<nn::FusedOp, nn::ConcatOp>(op);
}

// Can the op add its result to what lies in this layout?
static bool canAdd(Operation *op, unsigned result, const Layout &layout) {
  auto call = dyn_cast<LibraryCallOpInterface>(op);
  return call && call.canAccumulate(result) && canWrite(op, result, layout);
}

static bool isView(Operation *op) {
  return isa<nn::ReshapeOp, nn::TransposeOp, nn::SliceOp, nn::BroadcastOp,
             nn::WindowsOp>(op);
}

// Are rows of the value gradients, and is it nothing else?
static bool isHandedOver(Value value) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    return isa<nn::SliceOp>(user) && user->hasOneUse() &&
           isa<fsdp::ReduceStartOp>(*user->user_begin());
  });
}

Placement::Placement(func::FuncOp function, const ParameterPlaces &parameters,
                     bool splitSums, bool addsProducts)
    : function(function), parameters(parameters), splitSums(splitSums),
      addsProducts(addsProducts) {
  unsigned count = 0;
  for (Operation &op : function.front()) {
    positions[&op] = count;
    if (auto acquire = dyn_cast<fsdp::GradAcquireOp>(op))
      acquires[acquire.getUnitAttr()].push_back(count);
    ++count;
  }
}

const Storage *Placement::find(Value value) const {
  auto found = placed.find(value);
  return found == placed.end() ? nullptr : &found->second;
}

Root *Placement::newRoot(Root root) {
  roots.push_back(std::move(root));
  return &roots.back();
}

Storage Placement::allocate(Value value) {
  Root root;
  root.shape.assign(nn::shapeOf(value).begin(), nn::shapeOf(value).end());
  root.elementType = nn::elementType(value);
  return {newRoot(std::move(root)), Layout::rowMajor(nn::shapeOf(value))};
}

// The last op that reads the value's memory if views of it are views.
unsigned Placement::lastUse(Value value) const {
  unsigned last = 0;
  for (Operation *user : value.getUsers()) {
    last = std::max(last, position(user));
    if (isView(user))
      last = std::max(last, lastUse(user->getResult(0)));
  }
  return last;
}

// The producer of `value`, looking through reshapes and transposes, and where
// in `storage` it would write; none if it cannot, or if somebody needs the
// value there outside the window. What is added is nowhere by itself, so nobody
// may read it.
std::optional<Placement::Target> Placement::resolve(Value value,
                                                    const Storage &storage,
                                                    Window window,
                                                    bool add) const {
  Operation *op = value.getDefiningOp();
  if (!op || find(value) ||
      nn::elementType(value) != storage.root->elementType ||
      (add && !value.hasOneUse() && !isHandedOver(value)))
    return std::nullopt;
  Storage source = storage;
  if (auto reshape = dyn_cast<nn::ReshapeOp>(op)) {
    auto layout = storage.layout.reshape(nn::shapeOf(reshape.getOperand()));
    if (!layout)
      return std::nullopt;
    source.layout = *layout;
    return resolve(reshape.getOperand(), source, window, add);
  }
  if (auto transpose = dyn_cast<nn::TransposeOp>(op)) {
    source.layout = storage.layout.untranspose(transpose.getPermutation());
    return resolve(transpose.getOperand(), source, window, add);
  }
  if (lastUse(value) > window.end)
    return std::nullopt;
  // A sum is as good as its summands: placeSum asks them.
  if (splitSums && !fsdp::summandsOf(op).empty())
    return Target{value, storage};
  unsigned index = cast<OpResult>(value).getResultNumber();
  if (position(op) < window.begin ||
      !(add ? canAdd(op, index, storage.layout)
            : canWrite(op, index, storage.layout)))
    return std::nullopt;
  return Target{value, storage};
}

// The first of the summands writes, unless it adds too; the others add.
bool Placement::placeSum(Value sum, const Storage &storage, Window window,
                         bool add) {
  SmallVector<Target> targets;
  for (Value summand : fsdp::summandsOf(sum.getDefiningOp())) {
    auto target = resolve(summand, storage, window, /*add=*/true);
    if (!target || !fsdp::summandsOf(target->value.getDefiningOp()).empty())
      return false;
    targets.push_back(*target);
  }
  llvm::sort(targets, [&](const Target &a, const Target &b) {
    return position(a.value.getDefiningOp()) <
           position(b.value.getDefiningOp());
  });
  for (const Target &target : targets) {
    placed[target.value] = target.storage;
    if (add || &target != &targets.front())
      added.insert(target.value);
  }
  placed[sum] = storage;
  sums.insert(sum);
  return true;
}

bool Placement::place(Value value, const Storage &storage, Window window,
                      bool add) {
  std::optional<Target> target = resolve(value, storage, window, add);
  if (!target)
    return false;
  Operation *op = target->value.getDefiningOp();
  if (splitSums && !fsdp::summandsOf(op).empty() &&
      storage.root->space == exec::Space::gradients &&
      placeSum(target->value, target->storage, window, add))
    return true;
  // A sum that is not split is a kernel, which writes.
  unsigned index = cast<OpResult>(target->value).getResultNumber();
  if (position(op) < window.begin || (add && isa<nn::FusedOp>(op)) ||
      !canWrite(op, index, target->storage.layout))
    return false;
  placed[target->value] = target->storage;
  windows[target->value] = window;
  if (add)
    added.insert(target->value);
  return true;
}

Storage Placement::partOf(Operation *op, unsigned input) {
  auto concat = cast<nn::ConcatOp>(op);
  Storage storage = *find(concat.getResult());
  SmallVector<int64_t> offsets(storage.layout.rank(), 0);
  int64_t axis = concat.getAxis();
  for (Value before : concat.getInputs().take_front(input))
    offsets[axis] += nn::shapeOf(before)[axis];
  storage.layout =
      storage.layout.slice(offsets, nn::shapeOf(concat.getInputs()[input]));
  return storage;
}

Storage Placement::gradientOf(fsdp::ReduceStartOp reduce, unsigned index) {
  auto name = cast<FlatSymbolRefAttr>(reduce.getParameters()[index]);
  Storage &storage = gradients[name];
  if (!storage.root)
    storage =
        newGradient(reduce, index, nn::shapeOf(reduce.getGradients()[index]));
  return storage;
}

// A tensor in the unit's gradients, from where the i-th of them begins.
Storage Placement::newGradient(fsdp::ReduceStartOp reduce, unsigned index,
                               ArrayRef<int64_t> shape) {
  auto name = cast<FlatSymbolRefAttr>(reduce.getParameters()[index]);
  ParameterPlace place = parameters.lookup(name.getAttr());
  Root made;
  made.space = exec::Space::gradients;
  made.symbol = reduce.getUnitAttr();
  made.elementType = place.unit.getReduceDtype();
  made.offset = place.offset * exec::elementBytes(made.elementType);
  made.shape.assign(shape.begin(), shape.end());
  return {newRoot(std::move(made)), Layout::rowMajor(shape)};
}

// Gradients from `index` on that are together all rows of one value and lie
// side by side: the value is written there at once. Says how many they are; 0
// if it cannot be.
unsigned Placement::placeJoined(fsdp::ReduceStartOp reduce, unsigned index,
                                Window window) {
  ValueRange parts = reduce.getGradients().drop_front(index);
  Value whole = nn::wholeOfRows(parts.front());
  if (!whole)
    return 0;
  int64_t rows = nn::shapeOf(whole).front(), row = 0;
  int64_t width =
      nn::tensorType(whole).getNumElements() / std::max<int64_t>(1, rows);
  auto placeOf = [&](unsigned part) {
    auto name = cast<FlatSymbolRefAttr>(reduce.getParameters()[index + part]);
    return parameters.lookup(name.getAttr());
  };
  int64_t begin = placeOf(0).offset;
  SmallVector<Layout> layouts;
  Layout all = Layout::rowMajor(nn::shapeOf(whole));
  while (row < rows && layouts.size() < parts.size()) {
    unsigned part = layouts.size();
    auto slice = parts[part].getDefiningOp<nn::SliceOp>();
    if (!slice || slice.getOperand() != whole || !slice->hasOneUse() ||
        slice.getOffsets().front() != row ||
        placeOf(part).offset != begin + row * width)
      return 0;
    layouts.push_back(all.slice(slice.getOffsets(), slice.getSizes()));
    row += slice.getSizes().front();
  }
  if (row != rows || !llvm::hasNItems(whole.getUsers(), layouts.size()))
    return 0;
  Storage storage = newGradient(reduce, index, nn::shapeOf(whole));
  if (!place(whole, storage, window, reduce.getAccumulateUnsharded()))
    return 0;
  for (auto [part, layout] : llvm::enumerate(layouts))
    gradients[reduce.getParameters()[index + part]] = {storage.root, layout};
  return layouts.size();
}

Storage Placement::outputOf(func::ReturnOp end, unsigned index) {
  outputRoots.resize(end.getNumOperands());
  Root *&root = outputRoots[index];
  Value value = end.getOperand(index);
  if (!root) {
    Root made;
    made.space = exec::Space::input;
    made.offset = function.getNumArguments() + index;
    made.shape.assign(nn::shapeOf(value).begin(), nn::shapeOf(value).end());
    made.elementType = nn::elementType(value);
    root = newRoot(std::move(made));
  }
  return {root, Layout::rowMajor(nn::shapeOf(value))};
}

LogicalResult Placement::placeGradients(fsdp::ReduceStartOp reduce) {
  unsigned start = position(reduce);
  auto before = acquires.find(reduce.getUnitAttr());
  if (before == acquires.end() || before->second.front() > start)
    return reduce.emitOpError("has no grad_acquire of ")
           << reduce.getUnitAttr() << " before it";
  unsigned acquired = 0;
  for (unsigned acquire : before->second)
    if (acquire < start)
      acquired = acquire;
  for (Attribute name : reduce.getParameters())
    if (!parameters.count(cast<FlatSymbolRefAttr>(name).getAttr()))
      return reduce.emitOpError("no unit holds ") << name;
  // The buffer belongs to others once the reduction has begun.
  Window window = {acquired + 1, start};
  unsigned index = 0;
  while (index != reduce.getGradients().size()) {
    unsigned joined = placeJoined(reduce, index, window);
    if (joined == 0)
      place(reduce.getGradients()[index], gradientOf(reduce, index), window,
            reduce.getAccumulateUnsharded());
    index += std::max(1u, joined);
  }
  return success();
}

LogicalResult Placement::run() {
  for (Operation &op : llvm::reverse(function.front())) {
    if (auto reduce = dyn_cast<fsdp::ReduceStartOp>(op)) {
      if (failed(placeGradients(reduce)))
        return failure();
    } else if (auto end = dyn_cast<func::ReturnOp>(op)) {
      for (auto [index, value] : llvm::enumerate(end.getOperands()))
        place(value, outputOf(end, index), Window(), /*add=*/false);
    } else if (auto concat = dyn_cast<nn::ConcatOp>(op)) {
      if (!find(concat.getResult())) {
        std::optional<Storage> storage = overwritten(concat);
        placed[concat.getResult()] =
            storage ? *storage : allocate(concat.getResult());
      }
      for (auto [index, input] : llvm::enumerate(concat.getInputs()))
        place(input, partOf(concat, index), windows.lookup(concat.getResult()),
              /*add=*/false);
    } else if (auto product = dyn_cast<nn::MatmulEpilogueOp>(op)) {
      placeProduct(product);
    } else if (auto product = dyn_cast<nn::F8ProductOp>(op)) {
      // What it reads transposed is written so.
      for (Value operand : {product.getLhs(), product.getRhs()})
        if (operand.getDefiningOp<nn::TransposeOp>())
          place(operand, allocate(operand), Window(), /*add=*/false);
    }
  }
  return success();
}
