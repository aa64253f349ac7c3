// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `shardonnx inspect` for people: tables that are read from top to bottom.

#include "InspectReport.h"
#include "shardonnx/runtime/ByteSize.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"

#include <map>

namespace shardonnx {
namespace {

using llvm::raw_ostream;
using llvm::StringRef;

std::string formatScaled(double value, double step,
                         llvm::ArrayRef<const char *> units) {
  size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::format(unit == 0 ? "%.0f" : "%.2f", value) << ' ' << units[unit];
  return StringRef(text).rtrim().str();
}

std::string formatFlops(double flops) {
  return formatScaled(flops, 1000, {"", "k", "M", "G", "T", "P"});
}

std::string formatCount(int64_t count) {
  std::string digits = std::to_string(count);
  for (size_t at = digits.size(); at > 3;)
    digits.insert(at -= 3, ",");
  return digits;
}

// Columns as wide as their widest cell: words to the left, numbers to the
// right. `columns` has an l or an r for each.
class Table {
public:
  explicit Table(StringRef columns) : columns(columns) {}
  void add(std::vector<std::string> row) { rows.push_back(std::move(row)); }

  void print(raw_ostream &out) const {
    std::vector<size_t> widths;
    for (const auto &row : rows) {
      widths.resize(std::max(widths.size(), row.size()));
      for (auto [index, cell] : llvm::enumerate(row))
        widths[index] = std::max(widths[index], cell.size());
    }
    for (const auto &row : rows) {
      std::string line;
      for (auto [index, cell] : llvm::enumerate(row)) {
        std::string padding(widths[index] - cell.size(), ' ');
        bool left = columns[index] == 'l';
        line += "  ";
        line += left ? cell : padding;
        line += left ? padding : cell;
      }
      out << StringRef(line).rtrim() << '\n';
    }
  }

private:
  StringRef columns;
  std::vector<std::vector<std::string>> rows;
};

// What parameters cross the links as.
std::string gathersOf(const Manifest &m) {
  bool all = llvm::all_of(m.units, [&](const Manifest::Unit &unit) {
    return unit.gatherType == gatherTypeOf(m.gatherType, unit.paramType);
  });
  return std::string(spell(m.gatherType)) + (all ? "" : " in some units");
}

void printHead(const Manifest &m, raw_ostream &out) {
  out << m.name << ": " << spell(m.strategy) << ", batch " << m.batch;
  if (m.seq > 0)
    out << " x " << m.seq;
  out << " per rank and microbatch, " << spell(m.paramType) << " parameters, "
      << spell(m.reduceType) << " gradients, " << spell(m.optimizer)
      << (m.optimizerType == SHX_F32
              ? std::string()
              : std::string(" in ") + spell(m.optimizerType))
      << (m.masterType == SHX_F32
              ? std::string()
              : std::string(", masters in ") + spell(m.masterType))
      << (m.gatherType == GatherDtype::Param
              ? std::string()
              : std::string(", gathered as ") + gathersOf(m))
      << ", " << (m.cuda() ? "cuda " : "") << m.arch << '\n';
  out << "loss: " << spell(m.loss.kind) << ", " << describeLoss(m) << '\n';
}

// Calls back with every unit and its depth, inner units behind the one around
// them: the order of print(model).
void forEachNested(
    llvm::ArrayRef<int64_t> parents, int64_t parent, size_t depth,
    llvm::function_ref<void(size_t unit, size_t depth)> callback) {
  for (auto [unit, itsParent] : llvm::enumerate(parents))
    if (itsParent == parent) {
      callback(unit, depth);
      forEachNested(parents, static_cast<int64_t>(unit), depth + 1, callback);
    }
}

// How the unit is kept and computed in: FSDP's policies in words.
std::string policyText(const Manifest::Unit &unit) {
  std::string text = spell(unit.paramType);
  text += std::string(", reduce ") + spell(unit.reduceType);
  if (!unit.sharded)
    text += ", whole";
  else if (unit.kept)
    text += ", kept";
  else if (unit.reshards && unit.reshardGroup > 0)
    text += ", reshard to " + std::to_string(unit.reshardGroup);
  else
    text += unit.reshards ? ", reshard" : ", stays gathered";
  for (const auto &[key, value] : unit.policy)
    text.append(", ").append(key).append("=").append(value);
  return text;
}

std::string ownedText(Interval part) {
  return formatCount(part.begin) + ".." + formatCount(part.end);
}

// Which rank owns what of a parameter, the first and the last when many do.
std::string ownersText(const Manifest::Unit &unit, const Manifest::Param &param,
                       const Topology &topology) {
  if (!unit.sharded)
    return "every rank, whole";
  int64_t length = param.trainable ? unit.length : unit.frozenLength;
  std::vector<std::string> parts;
  for (int rank = 0; rank < topology.ranks; ++rank) {
    Interval part = cutToParameter(topology.owned(true, length, rank), param);
    if (part.size() > 0)
      parts.push_back("rank " + std::to_string(rank) + ": " + ownedText(part));
  }
  if (parts.size() > 3)
    return parts.front() + ", ... " + parts.back();
  return llvm::join(parts, ", ");
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

void printUnits(const Manifest &m, const InspectView &view, raw_ostream &out) {
  // All ranks where they fit, else the first and the last.
  std::vector<int> ranks;
  for (int rank = 0; rank < view.topology.ranks; ++rank)
    if (view.topology.ranks <= 4 || rank == 0 ||
        rank + 1 == view.topology.ranks)
      ranks.push_back(rank);
  Table table("lllrrrrllll");
  std::vector<std::string> head = {
      "unit",   "layout",   "policy",          "trainable",
      "frozen", "gathered", "FLOPs/microbatch"};
  for (int rank : ranks)
    head.push_back("rank " + std::to_string(rank));
  table.add(head);
  int64_t trainable = 0, frozen = 0, bytes = 0;
  forEachNested(parentsOf(m), -1, 0, [&](size_t index, size_t depth) {
    const Manifest::Unit &unit = m.units[index];
    trainable += countParameters(unit, true);
    frozen += countParameters(unit, false);
    int64_t unitBytes =
        (unit.length + unit.frozenLength) * dtypeBytes(unit.paramType);
    bytes += unitBytes;
    std::vector<std::string> row = {std::string(2 * depth, ' ') + unit.name,
                                    unit.sharded ? "sharded" : "replicated",
                                    policyText(unit),
                                    formatCount(countParameters(unit, true)),
                                    formatCount(countParameters(unit, false)),
                                    formatBytes(unitBytes),
                                    formatFlops(unit.flops)};
    for (int rank : ranks)
      row.push_back(
          ownedText(view.topology.owned(unit.sharded, unit.length, rank)));
    table.add(row);
  });
  table.add({"total", "", "", formatCount(trainable), formatCount(frozen),
             formatBytes(bytes), formatFlops(m.flopsPerMicrobatch)});
  out << "\nunits (" << m.units.size()
      << ") as they are nested, intervals in elements that a rank owns\n";
  table.print(out);
}

void printParameters(const Manifest &m, const Topology &topology,
                     raw_ostream &out) {
  for (const Manifest::Unit &unit : m.units) {
    out << "\nparameters of " << unit.name << '\n';
    Table table("lrlll");
    std::vector<int> owners = muonOwners(m, unit, topology);
    for (auto [param, owner] : llvm::zip_equal(unit.params, owners)) {
      std::string name = param.name;
      if (!param.tied.empty())
        name += " = " + llvm::join(param.tied, " = ");
      table.add({name, shapeText(param.shape),
                 param.trainable ? "trainable"
                 : param.packed
                     ? std::string("frozen, ") + spell(param.packed->packing)
                     : "frozen",
                 ownersText(unit, param, topology),
                 owner < 0 ? "" : "Muon by rank " + std::to_string(owner)});
    }
    table.print(out);
  }
}

// Parameters that are not trained are easily overlooked, so they are always
// named: those in a unit with their shape, and those that the graph lacks.
void printFrozen(const Manifest &m, bool parameters, raw_ostream &out) {
  std::map<std::string, std::string> reasons;
  for (const Manifest::Untrained &entry : m.untrained)
    reasons[entry.name] = ": " + entry.reason;
  std::vector<std::string> lines;
  for (const Manifest::Unit &unit : m.units)
    for (const Manifest::Param &param : unit.params)
      if (!param.trainable) {
        lines.push_back(param.name + " " + shapeText(param.shape) +
                        reasons[param.name]);
        reasons.erase(param.name);
      }
  for (const auto &[name, reason] : reasons)
    lines.push_back(name + reason);
  if (lines.empty())
    return;
  constexpr size_t kShown = 10;
  size_t shown = parameters ? lines.size() : std::min(kShown, lines.size());
  out << "\nfrozen parameters (" << lines.size() << ")\n";
  for (const std::string &line : llvm::ArrayRef(lines).take_front(shown))
    out << "  " << line << '\n';
  if (lines.size() > shown)
    out << "  and " << lines.size() - shown << " more (--parameters)\n";
}

// The nodes of one kind: how many, and the first.
std::string nodesText(const std::vector<std::string> &nodes) {
  constexpr size_t kShown = 2;
  std::string text = "x" + std::to_string(nodes.size());
  for (const std::string &node : llvm::ArrayRef(nodes).take_front(kShown))
    if (!node.empty())
      text.append(text.back() == '\'' ? ", '" : "  '").append(node).append("'");
  return nodes.size() > kShown ? text + ", ..." : text;
}

// What the graph's operations were found to be, and where not, why.
void printRaised(const Manifest &m, raw_ostream &out) {
  if (m.raised.empty())
    return;
  out << "\nfound in the graph (ONNX nodes; --json has them all)\n";
  for (const Manifest::Raised &entry : m.raised)
    if (entry.why.empty())
      out << "  " << entry.what << " " << nodesText(entry.nodes) << '\n';
  for (const Manifest::Raised &entry : m.raised)
    if (!entry.why.empty())
      out << "  written out: " << entry.what << " " << nodesText(entry.nodes)
          << ": " << entry.why << '\n';
}

// The run may have had another world size or accumulation: its own prediction
// is what its measurement is compared with.
void addMeasured(const RunMemory &run, Table &table) {
  table.add({"predicted by the run", formatBytes(run.planned)});
  std::string ratio;
  if (run.planned > 0)
    llvm::raw_string_ostream(ratio)
        << llvm::format("%.3f x", static_cast<double>(run.measured) /
                                      static_cast<double>(run.planned));
  table.add({"measured", formatBytes(run.measured), ratio});
  if (run.context)
    table.add({"context and modules", formatBytes(*run.context), "measured"});
}

void printMemory(const Manifest &m, const InspectView &view, raw_ostream &out) {
  std::vector<MemoryItem> items = planMemory(
      m, view.topology, view.threadsPerRank, view.accumulate, view.offload);
  const Topology &topology = view.topology;
  out << "\nmemory of a rank: " << topology.ranks
      << (topology.ranks == 1 ? " rank, " : " ranks, ");
  if (topology.replicas > 1)
    out << topology.replicas << " replicas, ";
  if (m.cuda())
    out << "of its GPU; the context comes on top, and headroom must be free\n";
  else
    out << view.threadsPerRank
        << (view.threadsPerRank == 1 ? " thread each" : " threads each")
        << "; what ranks share counts in equal parts\n";
  Table table("lrr");
  int64_t total = totalBytes(items);
  for (const MemoryItem &item : items) {
    if (item.bytes == 0)
      continue;
    std::string share;
    llvm::raw_string_ostream(share)
        << llvm::format("%.1f %%", 100.0 * static_cast<double>(item.bytes) /
                                       static_cast<double>(total));
    table.add({item.name, formatBytes(item.bytes), share});
  }
  table.add({"peak", formatBytes(total)});
  for (const MemoryItem &item : planHeadroom(m, view.topology))
    if (item.bytes > 0)
      table.add(
          {"headroom: " + item.name, formatBytes(item.bytes), "estimated"});
  if (m.hostSpace.bytes > 0)
    table.add(
        {"activations in pinned host memory", formatBytes(m.hostSpace.bytes)});
  if (view.offload != Offload::None)
    table.add({m.cuda() ? "in pinned host memory" : "in a file (--offload-dir)",
               formatBytes(offloadedBytes(m, view.topology, view.offload) -
                           m.hostSpace.bytes)});
  if (view.run)
    addMeasured(*view.run, table);
  table.print(out);
}

void printLive(const char *name, const Manifest::Space &space, bool all,
               raw_ostream &out) {
  if (space.live.empty())
    return;
  constexpr size_t kShown = 8;
  out << "\nat the peak of " << name;
  if (!space.peakAt.empty())
    out << ", " << space.peakAt;
  out << '\n';
  Table table("lr");
  llvm::ArrayRef<Manifest::LiveBuffer> shown = space.live;
  if (!all)
    shown = shown.take_front(kShown);
  int64_t rest = 0;
  for (const Manifest::LiveBuffer &buffer : shown)
    table.add({buffer.name, formatBytes(buffer.bytes)});
  for (const Manifest::LiveBuffer &buffer :
       llvm::ArrayRef(space.live).drop_front(shown.size()))
    rest += buffer.bytes;
  if (rest > 0)
    table.add({"and " + std::to_string(space.live.size() - shown.size()) +
                   " smaller (--parameters)",
               formatBytes(rest)});
  table.print(out);
}

void printSpaces(const Manifest &m, bool all, raw_ostream &out) {
  out << "\nplanned spaces\n";
  Table table("lrrr");
  table.add({"space", "bytes", "lower bound", "ratio"});
  std::vector<std::pair<const char *, const Manifest::Space *>> spaces = {
      {"private (activations, workspaces)", &m.privateSpace},
      {m.gathersInPlace() ? "gather (only between machines)" : "gather",
       &m.gatherSpace},
      {"gradients", &m.gradientSpace}};
  if (m.hostSpace.bytes > 0)
    spaces.push_back({"host (activations)", &m.hostSpace});
  for (auto [name, space] : spaces) {
    std::string ratio = "-";
    if (space->lowerBoundBytes > 0) {
      ratio.clear();
      llvm::raw_string_ostream(ratio) << llvm::format(
          "%.3f", static_cast<double>(space->bytes) /
                      static_cast<double>(space->lowerBoundBytes));
    }
    table.add({name, formatBytes(space->bytes),
               formatBytes(space->lowerBoundBytes), ratio});
  }
  table.print(out);
  printLive("private", m.privateSpace, all, out);
  printLive("gather", m.gatherSpace, all, out);
  printLive("gradients", m.gradientSpace, all, out);
  printLive("host", m.hostSpace, all, out);
}

// The last two parts of each unit's name, or the whole where these are not
// unique: the order of collectives repeats them many times.
std::vector<std::string> shortNames(const Manifest &m) {
  std::vector<std::string> names;
  llvm::StringSet<> seen;
  bool unique = true;
  for (const Manifest::Unit &unit : m.units) {
    StringRef name = unit.name;
    size_t last = name.rfind('.');
    size_t second = last == StringRef::npos || last == 0
                        ? StringRef::npos
                        : name.rfind('.', last);
    if (second != StringRef::npos)
      name = name.substr(second + 1);
    unique &= seen.insert(name).second;
    names.push_back(name.str());
  }
  if (!unique)
    for (auto [name, unit] : llvm::zip_equal(names, m.units))
      name = unit.name;
  return names;
}

// One function: runs of one op on units share its name, lines are cut at words.
void printCollectives(const Manifest::Function &function,
                      llvm::ArrayRef<std::string> names, raw_ostream &out) {
  constexpr size_t kWidth = 96;
  std::string line;
  auto flush = [&] {
    if (!line.empty())
      out << "   " << line << '\n';
    line.clear();
  };
  StringRef previous;
  for (auto [index, call] : llvm::enumerate(function.collectives)) {
    std::string word;
    if (call.op != previous || call.unit < 0)
      word += " " + call.op;
    if (call.unit >= 0)
      word += " " + names[static_cast<size_t>(call.unit)];
    previous = call.op;
    bool last = index + 1 == function.collectives.size();
    if (!last && function.collectives[index + 1].op != call.op)
      word += ";";
    else if (!last)
      word += ",";
    if (line.size() + word.size() > kWidth)
      flush();
    line += word;
  }
  flush();
}

bool sameCollectives(const Manifest::Function &a, const Manifest::Function &b) {
  return std::equal(
      a.collectives.begin(), a.collectives.end(), b.collectives.begin(),
      b.collectives.end(),
      [](const Manifest::Collective &x, const Manifest::Collective &y) {
        return x.op == y.op && x.unit == y.unit;
      });
}

// Neighbours that issue the same, as the microbatches of a step do, are told
// once.
void printFunctions(const Manifest &m, raw_ostream &out) {
  if (m.functions.empty())
    return;
  out << (m.hostSpace.bytes > 0 ? "\ncollectives and copies to the host"
                                : "\ncollectives")
      << ", in the order that every rank issues them\n";
  std::vector<std::string> names = shortNames(m);
  for (size_t first = 0, next = 0; first < m.functions.size(); first = next) {
    out << "  " << m.functions[first].name;
    for (next = first + 1;
         next < m.functions.size() &&
         sameCollectives(m.functions[first], m.functions[next]);
         ++next)
      out << ", " << m.functions[next].name;
    out << '\n';
    printCollectives(m.functions[first], names, out);
  }
}

void printTraffic(const Manifest &m, const InspectView &view,
                  raw_ostream &out) {
  StepTraffic traffic = stepTraffic(m, view);
  if (traffic.total() == 0)
    return;
  out << "\nbytes that each of " << view.topology.ranks
      << " ranks sends in a step of " << view.accumulate
      << (view.accumulate == 1 ? " microbatch\n" : " microbatches\n");
  Table table("lrr");
  std::pair<const char *, int64_t> rows[] = {
      {"all-gather", traffic.allGather},
      {"reduce-scatter", traffic.reduceScatter},
      {"all-reduce", traffic.allReduce},
      {"total", traffic.total()}};
  for (auto [name, bytes] : rows)
    if (bytes > 0)
      table.add({name, formatBytes(bytes), formatCount(bytes)});
  table.print(out);
}

} // namespace

void printInspectText(const Manifest &m, const InspectView &view,
                      raw_ostream &out) {
  printHead(m, out);
  if (view.traffic)
    return printMemoryTraffic(m, view, out);
  printUnits(m, view, out);
  if (view.parameters)
    printParameters(m, view.topology, out);
  else
    printFrozen(m, view.parameters, out);
  printRaised(m, out);
  printMemory(m, view, out);
  printMuon(m, view, out);
  printSpaces(m, view.parameters, out);
  printMesh(m, view, out);
  printTraffic(m, view, out);
  printExposure(m, view, out);
  printFunctions(m, out);
}

} // namespace shardonnx
