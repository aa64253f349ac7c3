// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Groups of ops and their merging.

#include "FusionGraph.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fusion;

/// Groups farther apart than this many ops are not merged: what lies between
/// would have to wait, and values would live longer.
static constexpr unsigned kReach = 400;
/// A kernel of more members is not made: compile time, registers.
static constexpr unsigned kMaxMembers = 160;

FusionGraph::FusionGraph(Block &block) {
  for (Operation &op : block) {
    positions[&op] = ops.size();
    identity.push_back(ops.size());
    ops.push_back(&op);
  }
  successors.resize(ops.size());
  groupIds.assign(ops.size(), -1);
  spans.assign(ops.size(), 0);
  for (auto [position, op] : llvm::enumerate(ops))
    for (Operation *user : op->getUsers())
      if (Operation *inBlock = block.findAncestorOpInBlock(*user))
        successors[position].push_back(positions.lookup(inBlock));
  addOrderEdges();
}

/// Every op that reads `value` itself or by way of ops that only look at it.
static void collectReaders(Value value, SmallVectorImpl<Operation *> &readers) {
  for (Operation *user : value.getUsers()) {
    readers.push_back(user);
    if (isa<nn::ReshapeOp, nn::TransposeOp, nn::SliceOp, nn::BroadcastOp,
            fsdp::ViewOp>(user))
      collectReaders(user->getResult(0), readers);
  }
}

bool fusion::keepsOrder(Operation *op) {
  // Handing over a gradient or the loss is ordered by its operand alone.
  return !isMemoryEffectFree(op) && !isa<nn::GradOp, nn::LossOp>(op) &&
         !op->hasTrait<OpTrait::IsTerminator>();
}

SmallVector<Operation *> fusion::readersBeforeEnd(Operation *op) {
  SmallVector<Operation *> readers;
  if (isa<fsdp::FreeOp>(op))
    collectReaders(op->getOperand(0), readers);
  llvm::erase(readers, op);
  return readers;
}

void FusionGraph::addOrderEdges() {
  std::optional<unsigned> previous;
  for (auto [position, op] : llvm::enumerate(ops)) {
    if (!keepsOrder(op))
      continue;
    if (previous)
      successors[*previous].push_back(position);
    for (Operation *reader : readersBeforeEnd(op))
      successors[positions.lookup(reader)].push_back(position);
    previous = position;
  }
}

std::optional<unsigned> FusionGraph::groupOf(Operation *op) const {
  auto it = positions.find(op);
  if (it == positions.end() || groupIds[it->second] < 0)
    return std::nullopt;
  return groupIds[it->second];
}

SmallVector<unsigned> FusionGraph::liveGroups() const {
  SmallVector<unsigned> live;
  for (auto [id, group] : llvm::enumerate(groups))
    if (!group.members.empty())
      live.push_back(id);
  return live;
}

/// Nodes of the contracted graph: groups first, then ungrouped positions.
unsigned FusionGraph::nodeOf(unsigned position) const {
  return groupIds[position] >= 0
             ? groupIds[position]
             : static_cast<unsigned>(groups.size()) + position;
}

ArrayRef<unsigned> FusionGraph::nodeMembers(unsigned node) const {
  if (node < groups.size())
    return groups[node].members;
  return ArrayRef(identity).slice(node - groups.size(), 1);
}

void FusionGraph::noteSpan(const Group &group) {
  unsigned last = group.members.back();
  for (size_t i = group.members.front() + 1; i <= spans.size(); i += i & -i)
    spans[i - 1] = std::max(spans[i - 1], last);
}

/// The last position that a path to `position` may pass: beyond it itself where
/// a group leads back, whose own last member another group may span, and so on.
unsigned FusionGraph::horizonOf(unsigned position) const {
  for (unsigned horizon = position;;) {
    unsigned reached = horizon;
    for (size_t i = horizon + 1; i > 0; i -= i & -i)
      reached = std::max(reached, spans[i - 1]);
    if (reached == horizon)
      return horizon;
    horizon = reached;
  }
}

/// Is there a path between two groups through something outside both?
bool FusionGraph::pathOutside(unsigned from, unsigned to) const {
  llvm::DenseSet<unsigned> seen{from};
  SmallVector<unsigned> work{from};
  unsigned horizon = horizonOf(lastOf(to));
  while (!work.empty()) {
    unsigned node = work.pop_back_val();
    for (unsigned member : nodeMembers(node))
      for (unsigned next : successors[member]) {
        unsigned nextNode = nodeOf(next);
        if (nextNode == to) {
          if (node != from)
            return true;
          continue;
        }
        if (firstOf(nextNode) <= horizon && seen.insert(nextNode).second)
          work.push_back(nextNode);
      }
  }
  return false;
}

bool FusionGraph::depend(Operation *a, Operation *b) const {
  unsigned nodeA = nodeOf(positionOf(a)), nodeB = nodeOf(positionOf(b));
  return pathOutside(nodeA, nodeB) || pathOutside(nodeB, nodeA);
}

/// Parts of which all predecessors were taken, by way of `edges`, are taken:
/// what is left of `parts` lies on a cycle or behind one.
static void takeReady(ArrayRef<std::pair<unsigned, unsigned>> edges,
                      llvm::SetVector<unsigned> &parts) {
  llvm::DenseMap<unsigned, unsigned> waiting;
  llvm::DenseMap<unsigned, SmallVector<unsigned>> successors;
  for (auto [from, to] : edges)
    if (parts.contains(from) && parts.contains(to)) {
      ++waiting[to];
      successors[from].push_back(to);
    }
  SmallVector<unsigned> ready;
  for (unsigned part : parts)
    if (waiting.lookup(part) == 0)
      ready.push_back(part);
  llvm::DenseSet<unsigned> taken;
  while (!ready.empty()) {
    unsigned part = ready.pop_back_val();
    taken.insert(part);
    for (unsigned next : successors[part])
      if (--waiting[next] == 0)
        ready.push_back(next);
  }
  parts.remove_if([&](unsigned part) { return taken.contains(part); });
}

std::optional<unsigned>
FusionGraph::partOnCycle(ArrayRef<unsigned> parts) const {
  SmallVector<std::pair<unsigned, unsigned>> edges;
  llvm::DenseMap<unsigned, unsigned> sizes;
  llvm::SetVector<unsigned> left;
  for (auto [position, part] : llvm::enumerate(parts)) {
    ++sizes[part];
    left.insert(part);
    for (unsigned next : successors[position])
      if (parts[next] != part)
        edges.push_back({part, parts[next]});
  }
  takeReady(edges, left);
  // From the other end, what is behind a cycle goes, too.
  for (auto &[from, to] : edges)
    std::swap(from, to);
  takeReady(edges, left);
  std::optional<unsigned> smallest;
  for (unsigned part : left)
    if (sizes[part] > 1 && (!smallest || sizes[part] < sizes[*smallest]))
      smallest = part;
  return smallest;
}

void FusionGraph::makeSingleton(unsigned position) {
  Operation *op = ops[position];
  Group group;
  group.members.push_back(position);
  ArrayRef<int64_t> domain = domainOf(op);
  group.space = rowSpaceOf(domain);
  auto refined = refineDomains({domain}, group.space.length);
  if (isRowReshape(op))
    refined = refineDomains({domain, nn::shapeOf(op->getOperand(0))},
                            group.space.length);
  if (failed(refined) || !runsOver(op, *refined))
    return;
  group.domain = *refined;
  group.unit = nn::unitOf(op);
  group.readsParameters = readsParameters(op);
  group.backward = nn::isBackward(op);
  group.reduces = nn::isReduction(op);
  group.writesColumns = isa<nn::F8CastOp>(op) &&
                        llvm::any_of(op->getUsers(), [](Operation *user) {
                          return isa<nn::TransposeOp>(user);
                        });
  groupIds[position] = groups.size();
  groups.push_back(std::move(group));
}

void FusionGraph::makeSingletons() {
  for (auto [position, op] : llvm::enumerate(ops))
    if (isRowOp(op) && !isCheap(op))
      makeSingleton(position);
}

void FusionGraph::dissolve(unsigned id) {
  Group group = std::move(groups[id]);
  groups[id] = Group();
  for (unsigned position : group.members) {
    groupIds[position] = -1;
    if (!isColumnSum(ops[position]))
      makeSingleton(position);
  }
}

bool FusionGraph::joinSum(Operation *sum, unsigned id) {
  unsigned position = positionOf(sum);
  makeSingleton(position);
  if (groupIds[position] < 0)
    return false;
  unsigned single = groupIds[position];
  if (groups[single].space.length == groups[id].space.length &&
      tryMerge(id, single))
    return true;
  groups[single] = Group();
  groupIds[position] = -1;
  return false;
}

bool FusionGraph::agree(const Group &a, const Group &b) const {
  // What backward computes is not to be there, and kept, since forward.
  if (a.space.rows != b.space.rows || a.backward != b.backward)
    return false;
  if (a.space.length != b.space.length && a.space.length != 1 &&
      b.space.length != 1)
    return false;
  if (a.members.size() + b.members.size() > kMaxMembers)
    return false;
  // Threads that have whole rows would write a column byte by byte.
  if ((a.reduces && b.writesColumns) || (b.reduces && a.writesColumns))
    return false;
  unsigned first = std::max(a.members.front(), b.members.front());
  unsigned last = std::min(a.members.back(), b.members.back());
  if (first > last + kReach)
    return false;
  if (!a.unit || !b.unit || a.unit == b.unit)
    return true;
  // Parameters of two units would both have to be gathered at once.
  return acrossUnits && !(a.readsParameters && b.readsParameters);
}

/// Every member must be able to run over the finer domain.
static bool membersFit(const Group &group, ArrayRef<int64_t> domain,
                       const FusionGraph &graph) {
  return llvm::all_of(group.members, [&](unsigned position) {
    return runsOver(graph.at(position), domain);
  });
}

/// Does a member of one group read a step that the other takes, which is known
/// once its kernel has ended?
bool FusionGraph::waitsForStep(unsigned reader, unsigned maker) const {
  return llvm::any_of(groups[maker].members, [&](unsigned position) {
    return nn::isTensorStep(ops[position]) &&
           llvm::any_of(ops[position]->getUsers(), [&](Operation *user) {
             return groupOf(user) == reader;
           });
  });
}

bool FusionGraph::tryMerge(unsigned a, unsigned b) {
  if (a == b || !agree(groups[a], groups[b]) || waitsForStep(a, b) ||
      waitsForStep(b, a))
    return false;
  Group &ga = groups[a], &gb = groups[b];
  int64_t length = std::max(ga.space.length, gb.space.length);
  auto domain = refineDomains({ga.domain, gb.domain}, length);
  if (failed(domain) || !membersFit(ga, *domain, *this) ||
      !membersFit(gb, *domain, *this))
    return false;
  if (pathOutside(a, b) || pathOutside(b, a))
    return false;
  for (unsigned member : gb.members)
    groupIds[member] = a;
  ga.members.append(gb.members);
  llvm::sort(ga.members);
  noteSpan(ga);
  ga.domain = *domain;
  ga.space.length = length;
  if (!ga.unit || (gb.unit && gb.readsParameters))
    ga.unit = gb.unit;
  ga.readsParameters |= gb.readsParameters;
  ga.reduces |= gb.reduces;
  ga.writesColumns |= gb.writesColumns;
  gb = Group();
  return true;
}

void FusionGraph::mergeWithProducers() {
  for (unsigned position = 0; position < ops.size(); ++position) {
    if (groupIds[position] < 0)
      continue;
    for (Value operand : ops[position]->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (!producer)
        continue;
      if (std::optional<unsigned> other = groupOf(producer))
        tryMerge(*other, groupIds[position]);
    }
  }
}

/// What a group reads of full size: a cheap broadcast or a reshape of it
/// counts as the tensor behind it.
static Value tensorBehind(Value value) {
  while (auto reshape = value.getDefiningOp<nn::ReshapeOp>())
    value = reshape.getOperand();
  return value;
}

void FusionGraph::mergeReadersOfSameTensors() {
  // The groups that read each tensor, in order of position.
  llvm::MapVector<Value, SmallVector<unsigned>> readers;
  for (unsigned position = 0; position < ops.size(); ++position) {
    if (groupIds[position] < 0)
      continue;
    const Group &group = groups[groupIds[position]];
    for (Value operand : ops[position]->getOperands()) {
      Value tensor = tensorBehind(operand);
      int64_t elements = nn::tensorType(tensor).getNumElements();
      if (elements == group.space.rows * group.space.length &&
          group.space.length > 1)
        readers[tensor].push_back(position);
    }
  }
  for (auto &[tensor, at] : readers)
    for (size_t i = 1; i < at.size(); ++i)
      tryMerge(groupIds[at[i - 1]], groupIds[at[i]]);
}

void FusionGraph::formGroups() {
  makeSingletons();
  mergeWithProducers();
  mergeReadersOfSameTensors();
  acrossUnits = true;
  mergeWithProducers();
}
