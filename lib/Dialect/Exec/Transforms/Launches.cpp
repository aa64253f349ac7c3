// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Launches.h.

#include "shardonnx/Dialect/Exec/Transforms/Launches.h"

#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/runtime/MeshABI.h"

using namespace mlir;

namespace shardonnx::exec {

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

Location withPlace(Operation *op) {
  nn::PlaceAttr place = nn::placeOf(op);
  if (!place)
    return op->getLoc();
  return FusedLoc::get(op->getContext(), {op->getLoc()}, place);
}

nn::PlaceAttr placeInStep(Operation *op) {
  auto loc = dyn_cast<FusedLoc>(op->getLoc());
  return loc ? dyn_cast_or_null<nn::PlaceAttr>(loc.getMetadata())
             : nn::PlaceAttr();
}

nn::Phase phaseOf(Operation *op) {
  nn::PlaceAttr place = placeInStep(op);
  return place ? place.getPhase() : nn::Phase::forward;
}

//===----------------------------------------------------------------------===//
// The fewest bytes
//===----------------------------------------------------------------------===//

namespace {

/// Part of a buffer, and the op that reads or writes it.
struct Access {
  Operation *op;
  int64_t begin, end; // elements of the root
  bool writes;
};

/// What of a function's generated kernels has to be read and written: if those
/// of one unit in one direction were one kernel, each value would be read once,
/// and written if something else reads it.
class LeastTraffic {
public:
  explicit LeastTraffic(func::FuncOp function);
  double bytesOf(LaunchOp launch) const;

private:
  bool together(Operation *a, Operation *b) const;
  bool hasToRead(LaunchOp launch, Value buffer) const;
  bool hasToWrite(LaunchOp launch, Value buffer) const;
  static Access accessOf(Operation *op, Value buffer, bool writes);
  /// Those of the buffer's root by ops before `launch`, and behind it.
  std::pair<ArrayRef<Access>, ArrayRef<Access>>
  accessesAround(LaunchOp launch, Value buffer) const;

  llvm::DenseMap<Value, SmallVector<Access>> accesses; // in order
  llvm::DenseMap<Operation *, unsigned> order;
};

} // namespace

Access LeastTraffic::accessOf(Operation *op, Value buffer, bool writes) {
  int64_t begin = 0, span = spanOf(cast<MemRefType>(buffer.getType()));
  while (auto view = buffer.getDefiningOp<ViewOp>()) {
    begin += int64_t(view.getOffset());
    buffer = view.getSource();
  }
  return {op, begin, begin + span, writes};
}

LeastTraffic::LeastTraffic(func::FuncOp function) {
  for (Operation &op : function.front()) {
    order.insert({&op, unsigned(order.size())});
    auto effects = dyn_cast<MemoryEffectOpInterface>(op);
    if (!effects || isa<AllocOp, BufferOp>(op))
      continue;
    SmallVector<MemoryEffects::EffectInstance> list;
    effects.getEffects(list);
    // An op reads before it writes.
    for (bool writes : {false, true})
      for (const MemoryEffects::EffectInstance &effect : list)
        if (Value value = effect.getValue();
            value && isa<MemoryEffects::Write>(effect.getEffect()) == writes)
          accesses[rootOf(value)].push_back(accessOf(&op, value, writes));
  }
}

std::pair<ArrayRef<Access>, ArrayRef<Access>>
LeastTraffic::accessesAround(LaunchOp launch, Value buffer) const {
  ArrayRef<Access> all = accesses.find(rootOf(buffer))->second;
  auto countBefore = [&](unsigned place) {
    const Access *first = llvm::partition_point(all, [&](const Access &access) {
      return order.lookup(access.op) < place;
    });
    return static_cast<size_t>(first - all.begin());
  };
  unsigned place = order.lookup(launch);
  return {all.take_front(countBefore(place)),
          all.drop_front(countBefore(place + 1))};
}

bool LeastTraffic::together(Operation *a, Operation *b) const {
  if (!isa<LaunchOp>(a) || !isa<LaunchOp>(b))
    return false;
  nn::PlaceAttr one = placeInStep(a), other = placeInStep(b);
  return one && other && one.getUnit() == other.getUnit() &&
         (one.getPhase() == nn::Phase::forward) ==
             (other.getPhase() == nn::Phase::forward);
}

bool LeastTraffic::hasToRead(LaunchOp launch, Value buffer) const {
  Access mine = accessOf(launch, buffer, /*writes=*/false);
  for (const Access &access :
       llvm::reverse(accessesAround(launch, buffer).first)) {
    if (access.end <= mine.begin || mine.end <= access.begin)
      continue;
    // Either way it was there in a register.
    if (together(access.op, launch))
      return false;
    if (access.writes)
      return true;
  }
  return true;
}

bool LeastTraffic::hasToWrite(LaunchOp launch, Value buffer) const {
  auto root = rootOf(buffer).getDefiningOp<BufferOp>();
  if (!root || root.getSpace() != Space::private_)
    return true;
  Access mine = accessOf(launch, buffer, /*writes=*/true);
  for (const Access &access : accessesAround(launch, buffer).second) {
    if (access.end <= mine.begin || mine.end <= access.begin)
      continue;
    if (access.writes)
      return false;
    if (!together(access.op, launch))
      return true;
  }
  return false;
}

double LeastTraffic::bytesOf(LaunchOp launch) const {
  double bytes = 0;
  for (Value input : launch.getInputs())
    if (hasToRead(launch, input))
      bytes += exec::bytesOf(input);
  for (Value output : launch.getOutputs())
    if (hasToWrite(launch, output))
      bytes += exec::bytesOf(output);
  return bytes;
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

bool isCommonCall(Operation *op) {
  return isa<GatherStartOp, GatherWaitOp, GatherFreeOp, GatherReshardOp,
             GradAcquireOp, ReduceStartOp, ReduceWaitOp, OptimizerOp,
             MuonStartOp, MuonFinishOp, ClipGradNormOp, WeightStepsOp,
             OffloadStartOp, OffloadWaitOp, ReloadStartOp, ReloadWaitOp,
             AxisStartOp, AxisWaitOp>(op);
}

LaunchTable::LaunchTable(ModuleOp module) {
  for (auto unit : module.getOps<fsdp::UnitOp>())
    units.insert({unit.getSymNameAttr(), int64_t(units.size())});
}

/// What a library call is counted under.
static StringRef kindOf(Operation *op) {
  if (isa<GemmOp, GemmEpilogueOp, F8GemmOp, GroupedGemmOp, GroupedGemmGradOp>(
          op))
    return "product";
  if (isa<AttentionOp, AttentionGradOp>(op))
    return "attention";
  if (isa<DepthwiseConvOp, DepthwiseConvImageGradOp, DepthwiseConvKernelGradOp>(
          op))
    return "convolution";
  if (isa<CrossEntropyOp, LinearCrossEntropyOp>(op))
    return "loss";
  if (isa<EmbeddingOp, EmbeddingGradOp>(op))
    return "embedding";
  if (isa<CopyOp, ZeroOp, F8CastOp>(op))
    return "copy";
  if (isa<AxisCollectiveOp>(op))
    return kMeshLaunch;
  if (isa<AxisStartOp>(op))
    return kStartedMeshLaunch;
  return "index";
}

/// MeshABI.h's calls, as nn's ops are named.
static StringRef stringifyCall(uint64_t call) {
  switch (call) {
  case SHX_AXIS_ALL_REDUCE:
    return "all_reduce";
  case SHX_AXIS_ALL_GATHER:
    return "all_gather";
  case SHX_AXIS_REDUCE_SCATTER:
    return "reduce_scatter";
  case SHX_AXIS_PART_ROLL:
  case SHX_AXIS_PART_UNROLL:
    return "part_roll";
  case SHX_AXIS_PART_PAD:
    return "part_pad";
  case SHX_AXIS_SHIFT:
    return "part_shift";
  case SHX_AXIS_ALL_TO_ALL:
    return "all_to_all";
  default:
    return "all_slice";
  }
}

static std::string shapeText(Value buffer) {
  std::string text;
  for (int64_t size : cast<MemRefType>(buffer.getType()).getShape())
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

/// The op, and of a product rows x depth x columns, of attention the query's
/// batch x sequence x heads x headDim.
static std::string nameOf(Operation *op) {
  std::string name = op->getName().stripDialect().str();
  auto product = [&](Value lhs, Value result) {
    auto type = cast<MemRefType>(result.getType());
    int64_t depth = cast<MemRefType>(lhs.getType()).getShape().back();
    std::string text = shapeText(result);
    text.insert(text.size() - std::to_string(type.getShape().back()).size(),
                std::to_string(depth) + "x");
    return name + " " + text;
  };
  if (auto gemm = dyn_cast<GemmOp>(op))
    return product(gemm.getLhs(), gemm.getResult());
  if (auto gemm = dyn_cast<F8GemmOp>(op))
    return product(gemm.getLhs(), gemm.getResult());
  if (auto gemm = dyn_cast<GemmEpilogueOp>(op))
    return product(gemm.getLhs(), gemm.getResult()) + " " +
           nn::stringifyEpilogue(gemm.getEpilogue()).str();
  if (auto collective = dyn_cast<AxisCollectiveOp>(op))
    return (stringifyCall(collective.getCall()) + " " + collective.getAxis())
        .str();
  if (auto start = dyn_cast<AxisStartOp>(op))
    return (stringifyCall(start.getCall()) + " " + start.getAxis()).str();
  auto attention = [&](auto op) {
    return name + " " + shapeText(op.getQuery()) +
           (op.getCausal() ? " causal" : "");
  };
  if (auto forward = dyn_cast<AttentionOp>(op))
    return attention(forward);
  if (auto backward = dyn_cast<AttentionGradOp>(op))
    return attention(backward);
  return name;
}

LaunchTable::Launch LaunchTable::describe(Operation *op) const {
  Launch launch;
  Traffic traffic = operandTraffic(op);
  launch.least = traffic.bytes();
  if (auto call = dyn_cast<RuntimeCallOpInterface>(op)) {
    launch.kind = kindOf(op);
    launch.name = nameOf(op);
    launch.flops = call.getExecutedFlops();
    traffic = call.getTraffic();
    launch.least = std::min(launch.least, traffic.bytes());
    launch.calls = 1;
  } else {
    auto kernel = cast<LaunchOp>(op);
    // The kernel may be code by now: its name begins with its kind.
    bool columns = kernel.getKernel().starts_with(
        nn::stringifyFusedKind(nn::FusedKind::columns));
    launch.kind = columns ? "column sums" : "elementwise";
    launch.name = kernel.getKernel();
    // With a workspace there is a second kernel, which reads it.
    launch.kernels = kernel.getWorkspace() ? 2 : 1;
    for (Value operand :
         llvm::concat<Value>(llvm::to_vector(kernel.getInputs()),
                             llvm::to_vector(kernel.getOutputs())))
      launch.elements +=
          bytesOf(operand) /
          double(elementBytes(
              cast<MemRefType>(operand.getType()).getElementType()));
    if (Value workspace = kernel.getWorkspace()) {
      traffic.written += bytesOf(workspace);
      traffic.read += bytesOf(workspace);
    }
  }
  launch.read = traffic.read;
  launch.written = traffic.written;
  return launch;
}

/// Of `count` exchanges of all rows' numbers, one.
LaunchTable::Launch LaunchTable::describeShares(LinearCrossEntropyOp loss,
                                                int64_t count) {
  Launch launch;
  launch.kind = kMeshLaunch;
  launch.name = ("all_gather " + *loss.getAxis()).str();
  auto rows = cast<MemRefType>(loss.getOperand().getType()).getDimSize(0);
  launch.read = double(rows * SHX_LOSS_SHARE_NUMBERS * 4) / double(count);
  launch.written = launch.read * double(loss.getParts());
  launch.least = launch.read + launch.written;
  launch.calls = 1;
  return launch;
}

int64_t LaunchTable::numberOf(Launch launch) {
  auto [found, isNew] =
      numbers.try_emplace(std::move(launch), int64_t(numbers.size()));
  if (isNew)
    list.push_back(&found->first);
  return found->second;
}

/// How often a loss whose vocabulary ranks share tells its numbers: once a
/// chunk of rows.
static int64_t sharesOf(LinearCrossEntropyOp loss) {
  if (!loss || !loss.getAxis())
    return 0;
  auto rows = cast<MemRefType>(loss.getOperand().getType()).getDimSize(0);
  return int64_t(llvm::divideCeil(rows, int64_t(loss.getChunkRows())));
}

llvm::json::Array LaunchTable::runsOf(func::FuncOp function) {
  LeastTraffic least(function);
  llvm::MapVector<std::tuple<int64_t, int64_t, int64_t, int64_t>, int64_t> runs;
  int64_t calls = 0;
  for (Operation &op : function.front()) {
    auto kernel = dyn_cast<LaunchOp>(op);
    if ((!kernel && !isa<RuntimeCallOpInterface>(op)) || isa<AxisWaitOp>(op)) {
      calls += isCommonCall(&op);
      continue;
    }
    Launch launch = describe(&op);
    if (kernel)
      launch.least = least.bytesOf(kernel);
    nn::PlaceAttr place = placeInStep(&op);
    int64_t unit = -1;
    if (place && place.getUnit())
      if (auto known = units.find(place.getUnit().getAttr());
          known != units.end())
        unit = known->second;
    auto add = [&](Launch launch, int64_t count) {
      auto run = runs.insert(
          {{numberOf(std::move(launch)), unit, int64_t(phaseOf(&op)), calls},
           0});
      run.first->second += count;
      return run.first - runs.begin();
    };
    runOfOp[&op] = add(std::move(launch), 1);
    auto loss = dyn_cast<LinearCrossEntropyOp>(op);
    if (int64_t shares = sharesOf(loss))
      add(describeShares(loss, shares), shares);
    // What a start begins is the last launch before the call.
    calls += isCommonCall(&op);
  }
  llvm::json::Array array;
  for (const auto &[key, count] : runs)
    array.push_back(llvm::json::Array{std::get<0>(key), std::get<1>(key),
                                      std::get<2>(key), count,
                                      std::get<3>(key)});
  return array;
}

std::optional<int64_t> LaunchTable::runOf(Operation *op) const {
  auto found = runOfOp.find(op);
  if (found == runOfOp.end())
    return std::nullopt;
  return found->second;
}

llvm::json::Array LaunchTable::launches() const {
  llvm::json::Array array;
  for (const Launch *launch : list) {
    llvm::json::Object object{{"kind", launch->kind}, {"name", launch->name}};
    auto add = [&](StringRef key, auto value) {
      if (value != 0)
        object[key] = value;
    };
    add("flops", launch->flops);
    add("read_bytes", launch->read);
    add("written_bytes", launch->written);
    add("least_bytes", launch->least);
    add("elements", launch->elements);
    add("kernels", launch->kernels);
    add("calls", launch->calls);
    array.push_back(std::move(object));
  }
  return array;
}

} // namespace shardonnx::exec
